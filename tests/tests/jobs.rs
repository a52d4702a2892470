//! Stops and retries, through the whole product.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::home;

use crate::stage::{Job, SIMULATED, Stage, status};

/// How soon a task is gone that does not end by itself, after its grace of 1 s.
const STOP_LIMIT: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn containerd_stop_ends_a_job_whatever_it_does() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::with(SIMULATED).await?;
    stage.policy("tasks: {stop_grace_ms: 1000}")?;
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let image = format!("{}/never:1", silent.local_addr()?);
    let deaf = "trap '' TERM INT\necho deaf\nwhile :; do sleep 1; done";
    let pull = Job {
        image: &image,
        ..Job::new("pull", "true")
    };
    stage.client.submit(&pull.yaml()).await?;
    let (_pulling, _) = tokio::task::spawn_blocking(move || silent.accept()).await??;
    stage.runs(&Job::new("deaf", deaf)).await?;
    for name in ["pull", "deaf"] {
        let start = Instant::now();
        stage.home.muster(&["job", "stop", name, "--wait"])?;
        let detail = stage.waits(name).await?;
        let expect = ("STOPPED", -210, "StopFrameworkRequested");
        assert_eq!(status(&detail), expect, "{detail:#}");
        ensure!(
            start.elapsed() < STOP_LIMIT,
            "{name}: {:?}",
            start.elapsed()
        );
    }
    stage.holds_nothing().await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_retries_are_as_many_as_asked_for() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let whole = Job {
        extra: "jobRetryCount: 2",
        ..Job::new(
            "whole",
            "echo $FC_FRAMEWORK_ATTEMPT_ID; test $FC_FRAMEWORK_ATTEMPT_ID = 2",
        )
    };
    let each = Job {
        extra: "extras: {gangAllocation: false}",
        role: "taskRetryCount: 1",
        instances: 2,
        ..Job::new("each", "test $FC_TASK_ATTEMPT_ID = $PAI_TASK_INDEX")
    };
    let never = Job {
        extra: "jobRetryCount: 1",
        ..Job::new("never", "exit 1")
    };
    for job in [&whole, &each, &never] {
        stage.client.submit(&job.yaml()).await?;
    }
    let detail = stage.waits("whole").await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    assert_eq!(detail["jobStatus"]["retries"], 2, "{detail:#}");
    let detail = stage.waits("each").await?;
    let retries: Vec<_> = detail["taskRoles"]["main"]["taskStatuses"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|task| task["retries"].as_u64())
        .collect();
    assert_eq!(retries, [Some(0), Some(1)], "{detail:#}");
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    let detail = stage.waits("never").await?;
    assert_eq!(status(&detail).0, "FAILED", "{detail:#}");
    assert_eq!(detail["jobStatus"]["retries"], 1, "{detail:#}");
    stage.holds_nothing().await
}
