//! Limits of a job's run time, on one machine.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::home;
use serde_json::Value;

use crate::stage::{Job, LIMIT, Stage, status};

const CODE: i64 = 209;

/// How long the attempt ran, in milliseconds.
fn ran_ms(detail: &Value) -> Result<u64> {
    let time = |field: &str| {
        detail["jobStatus"][field]
            .as_u64()
            .context(field.to_owned())
    };
    Ok(time("appCompletedTime")? - time("appLaunchedTime")?)
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_job_is_ended_at_its_time_limit_with_its_grace() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    stage.policy("tasks: {stop_grace_ms: 1500}")?;
    let wait = "while :; do sleep 0.1; done";
    let polite = format!("trap 'echo cleaned; exit 0' TERM; {wait}");
    let stubborn = format!("trap '' TERM; {wait}");
    let extra = "jobRetryCount: 3\nextras: {muster: {maxRunTime: 2, enforceMaxRunTime: true}}";
    let jobs = [
        ("polite", &polite, 1900..3400),
        ("stubborn", &stubborn, 3400..20_000),
    ];
    for (name, commands, _) in &jobs {
        let job = Job {
            extra,
            ..Job::new(name, commands)
        };
        stage.client.submit(&job.yaml()).await?;
    }
    for (name, _, expect) in &jobs {
        let detail = stage.waits(name).await?;
        let (state, code, _) = status(&detail);
        assert_eq!((state, code), ("FAILED", CODE), "{detail:#}");
        assert_eq!(detail["jobStatus"]["retries"], 0, "{detail:#}");
        ensure!(expect.contains(&ran_ms(&detail)?), "{name}: {detail:#}");
        if *name == "polite" {
            assert_eq!(stage.log(&detail, "stdout").await?, "cleaned\n");
        }
        let shown = stage.home.muster(&["job", "show", name])?;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        ensure!(shown.contains("had run for 2 s"), "{shown}");
    }
    stage.holds_nothing().await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_limit_of_the_virtual_cluster_outlives_the_agent() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    stage.policy("jobs: {vcs: {default: {run_time_s: 6, run_time_max_s: 60}}}")?;
    let extra = "extras: {muster: {maxRunTime: 61}}";
    let long = Job {
        extra,
        ..Job::new("long", "true")
    };
    let (code, text) = stage
        .client
        .send(Method::POST, "/api/v2/jobs", "text/yaml", long.yaml())
        .await?;
    ensure!(
        code == StatusCode::BAD_REQUEST && text.contains("should be at most 60"),
        "{text}"
    );
    let detail = stage.runs(&Job::new("usual", "sleep 600")).await?;
    let limit = &detail["jobStatus"]["runLimit"];
    assert_eq!(limit["seconds"], 6, "{detail:#}");
    ensure!(limit["endsTime"].is_u64(), "{detail:#}");
    let begun = Instant::now();
    stage.agent.kill()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.crash().await?;
    let detail = stage.waits("usual").await?;
    assert_eq!(status(&detail).1, CODE, "{detail:#}");
    ensure!((5_900..15_000).contains(&ran_ms(&detail)?), "{detail:#}");
    ensure!(begun.elapsed() < LIMIT);
    Ok(())
}
