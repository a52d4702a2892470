//! Failed tasks that are kept for a look, on one machine.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::home;
use serde_json::Value;

use crate::stage::{Job, LIMIT, Stage, status};

fn first(detail: &Value) -> &Value {
    &detail["taskRoles"]["main"]["taskStatuses"][0]
}

/// Waits until the job's task has failed and is kept.
async fn held(stage: &Stage, name: &str) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let detail = stage
            .client
            .get(&format!("/api/v2/jobs/admin~{name}"))
            .await?;
        if first(&detail)["containerOnHold"].is_object() {
            return Ok(detail);
        }
        ensure!(begun.elapsed() < LIMIT, "{detail:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_failed_task_is_kept_over_a_restart_of_the_agent() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let job = Job {
        gpu: 2,
        extra: "jobRetryCount: 1\nextras: {muster: {holdOnFailure: 600}}",
        ..Job::new("broken", "echo left >/left; sleep 600 & exit 7")
    };
    stage.client.submit(&job.yaml()).await?;
    let detail = held(&stage, "broken").await?;
    let (state, ..) = status(&detail);
    assert_eq!(state, "RUNNING", "{detail:#}");
    let hold = &first(&detail)["containerOnHold"];
    assert_eq!(hold["exitCode"], 255, "{detail:#}");

    stage.crash().await?;
    let kept = held(&stage, "broken").await?;
    assert_eq!(first(&kept)["containerOnHold"], *hold, "{kept:#}");
    // A person looks into it: what it wrote is there, and what it had started is not.
    let look = "cat /left; ps; echo $PAI_CURRENT_TASK_ROLE_NAME:$PAI_TASK_INDEX";
    let look = ["job", "exec", "broken", "--", "sh", "-c", look];
    let looked = stage.home.muster(&look)?;
    let seen = String::from_utf8_lossy(&looked.stdout).into_owned();
    ensure!(
        seen.contains("left") && !seen.contains("sleep") && seen.contains("main:0"),
        "{looked:?}"
    );
    let shown = stage.home.muster(&["node", "show", "-o", "json"])?;
    let node: Value = serde_json::from_slice(&shown.stdout)?;
    let devices = node["tasks"][0]["devices"].as_array().map(Vec::len);
    assert_eq!(devices, Some(2), "its devices are its own: {node:#}");
    let shown = stage.home.muster(&["job", "show", "broken"])?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(shown.contains("its container is kept until"), "{shown}");
    ensure!(shown.contains("muster job stop admin~broken"), "{shown}");

    let stopped = stage.home.muster(&["job", "stop", "broken", "--wait"])?;
    ensure!(stopped.status.success(), "{stopped:?}");
    let detail = stage.waits("broken").await?;
    assert_eq!(status(&detail).0, "STOPPED", "{detail:#}");
    assert_eq!(first(&detail)["containerExitCode"], 255, "{detail:#}");
    stage.holds_nothing().await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_after_the_hold_the_retries_go_on() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    stage.policy("jobs: {all: {hold_max_s: 2}}")?;
    let job =
        |seconds| format!("jobRetryCount: 1\nextras: {{muster: {{holdOnFailure: {seconds}}}}}");
    let (long, short) = (job(3), job(2));
    let refused = Job {
        extra: &long,
        ..Job::new("long", "exit 7")
    };
    let (code, text) = stage
        .client
        .send(Method::POST, "/api/v2/jobs", "text/yaml", refused.yaml())
        .await?;
    ensure!(
        code == StatusCode::BAD_REQUEST && text.contains("should be at most 2"),
        "{text}"
    );
    let begun = Instant::now();
    let detail = stage
        .ends(&Job {
            extra: &short,
            ..Job::new("short", "exit 7")
        })
        .await?;
    assert_eq!(status(&detail).0, "FAILED", "{detail:#}");
    assert_eq!(status(&detail).1, 255, "{detail:#}");
    assert_eq!(detail["jobStatus"]["retryDetails"]["user"], 1, "{detail:#}");
    ensure!(
        begun.elapsed() >= Duration::from_secs(4),
        "each attempt was kept"
    );
    stage.holds_nothing().await
}
