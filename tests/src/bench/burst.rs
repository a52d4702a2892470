//! Many submissions as fast as one client can, and crashes right after an acknowledgement.

use std::time::{Duration, Instant};

use anyhow::Result;
use muster_tests::client::Client;
use serde_json::{Value, json};

use crate::sample::Sample;
use crate::{Arguments, job, unique};

const JOBS: usize = 300;
const CRASHES: usize = 20;
const JOBS_A_CRASH: usize = 20;
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) async fn run(arguments: &Arguments) -> Result<Value> {
    let build = arguments.build()?;
    let mut agent = build.start()?;
    let client = agent.client().await?;
    let mut submits = Sample::new()?;
    let start = Instant::now();
    let mut names = Vec::new();
    let mut errors = 0;
    for _ in 0..JOBS {
        let name = unique("burst");
        let begin = Instant::now();
        match client.submit(&job(&name, 1, "true")).await {
            Ok(()) => names.push(name),
            Err(_) => errors += 1,
        }
        submits.add(begin.elapsed());
    }
    let not_succeeded = ends(&client, &names).await?;
    let drained = start.elapsed();
    let (mut accepted, mut missing) = (0, 0);
    for _ in 0..CRASHES {
        let client = agent.client().await?;
        let mut names = Vec::new();
        for _ in 0..JOBS_A_CRASH {
            let name = unique("crash");
            client.submit(&job(&name, 1, "true")).await?;
            names.push(name);
        }
        agent.kill()?;
        agent = build.start()?;
        accepted += names.len();
        missing += absent(&agent.client().await?, &names).await;
        missing += ends(&agent.client().await?, &names).await?;
    }
    Ok(json!({
        "bench": "burst", "jobs": JOBS, "errors": errors, "not_succeeded": not_succeeded,
        "submit_p50_ms": submits.ms(0.5), "submit_p99_ms": submits.ms(0.99),
        "drain_s": (drained.as_secs_f64() * 10.0).round() / 10.0,
        "crashes": CRASHES, "accepted": accepted, "missing": missing,
    }))
}

/// How many of the jobs the agent does not know.
async fn absent(client: &Client, names: &[String]) -> usize {
    let mut absent = 0;
    for name in names {
        if client
            .get(&format!("/api/v2/jobs/admin~{name}"))
            .await
            .is_err()
        {
            absent += 1;
        }
    }
    absent
}

/// Waits for every job's end; how many did not succeed.
async fn ends(client: &Client, names: &[String]) -> Result<usize> {
    let mut failed = 0;
    for name in names {
        let detail = client.wait_final(&format!("admin~{name}"), LIMIT).await?;
        if detail["jobStatus"]["state"] != "SUCCEEDED" {
            failed += 1;
        }
    }
    Ok(failed)
}
