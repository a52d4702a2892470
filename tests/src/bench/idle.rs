//! What an agent costs while nothing happens: with no task, then with 100 that sleep.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::build::Build;
use crate::process::{cpu_seconds, rss_mb};
use crate::sample::round;
use crate::{Arguments, compared, job, unique};

const TASKS: u32 = 100;
const SETTLE: Duration = Duration::from_secs(10);
const WINDOW: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(180);

pub(crate) async fn run(arguments: &Arguments) -> Result<Value> {
    let mut lines = Vec::new();
    for build in arguments.builds()? {
        lines.push(of(&build).await?);
    }
    Ok(compared(lines.remove(0), lines.first()))
}

async fn of(build: &Build) -> Result<Value> {
    let agent = build.start()?;
    let client = agent.client().await?;
    let (idle_rss, idle_cpu) = measure(agent.pid()).await?;
    let name = unique("idle");
    let id = format!("admin~{name}");
    client.submit(&job(&name, TASKS, "sleep 600")).await?;
    client.wait(&id, LIMIT, |state| state == "RUNNING").await?;
    let (busy_rss, busy_cpu) = measure(agent.pid()).await?;
    let path = format!("/api/v2/jobs/{id}/executionType");
    let body = json!({"value": "STOP"}).to_string();
    client
        .send(hyper::Method::PUT, &path, "application/json", body)
        .await?;
    client.wait_final(&id, LIMIT).await?;
    Ok(json!({
        "bench": "idle",
        "idle_rss_mb": idle_rss, "idle_cpu_percent": idle_cpu,
        "tasks_rss_mb": busy_rss, "tasks_cpu_percent": busy_cpu,
    }))
}

/// Resident memory in MB and CPU in percent of one core, after the agent has settled.
async fn measure(pid: u32) -> Result<(f64, f64)> {
    tokio::time::sleep(SETTLE).await;
    let before = cpu_seconds(pid)?;
    tokio::time::sleep(WINDOW).await;
    let cpu = (cpu_seconds(pid)? - before) / WINDOW.as_secs_f64() * 100.0;
    Ok((round(rss_mb(pid)?), round(cpu)))
}
