//! Many failures at once, each judged rightly.

use std::time::Duration;

use anyhow::{Context as _, Result};
use muster_tests::home;

use crate::stage::{Job, Stage, status};

/// Failures if `MUSTER_FAILURES` does not say how many.
const FAILURES: u32 = 100;
/// Tasks of one job.
const INSTANCES: u32 = 20;
/// For each failure; many run at once.
const LIMIT_EACH: Duration = Duration::from_millis(500);
/// What the shipped rules call a syntax error.
const SYNTAX_ERROR: i64 = 231;

#[tokio::test(flavor = "multi_thread")]
async fn containerd_instant_failures_are_all_judged_rightly() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let failures = match std::env::var("MUSTER_FAILURES") {
        Ok(text) => text.parse().context("MUSTER_FAILURES")?,
        Err(_) => FAILURES,
    };
    let stage = Stage::new().await?;
    let names: Vec<String> = (0..failures / INSTANCES)
        .map(|i| format!("fails{i}"))
        .collect();
    for name in &names {
        let job = Job {
            instances: INSTANCES,
            role: "completion: {minFailedInstances: -1, minSucceededInstances: -1}",
            ..Job::new(name, "echo 'SyntaxError: invalid syntax' >&2; exit 1")
        };
        stage.client.submit(&job.yaml()).await?;
    }
    for name in &names {
        let limit = LIMIT_EACH * failures;
        let detail = stage
            .client
            .wait_final(&format!("admin~{name}"), limit)
            .await?;
        let tasks = detail["taskRoles"]["main"]["taskStatuses"].as_array();
        let codes: Vec<_> = tasks
            .into_iter()
            .flatten()
            .map(|task| task["containerExitCode"].as_i64())
            .collect();
        let expect = vec![Some(SYNTAX_ERROR); INSTANCES as usize];
        assert_eq!(codes, expect, "{name}: {:?}", status(&detail));
        assert_eq!(detail["jobStatus"]["retries"], 0, "{name}");
    }
    let logs = stage.outputs("stderr")?;
    assert_eq!(logs.len(), names.len() * INSTANCES as usize);
    for log in logs {
        assert_eq!(log, "SyntaxError: invalid syntax\n");
    }
    Ok(())
}
