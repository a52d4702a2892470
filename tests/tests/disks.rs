//! Disks that are full or cannot be written.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::disk::fill;
use muster_tests::home::{self, AgentHome};

use crate::stage::{Job, LIMIT, SIMULATED, Stage, status};

/// More than the agent keeps in reserve.
const DISK_BYTES: u64 = 64 << 20;

/// Submits until it is refused; gives the names that were accepted and the refusal.
async fn refusal(stage: &Stage, prefix: &str) -> Result<(Vec<String>, String)> {
    let mut accepted = Vec::new();
    let start = Instant::now();
    loop {
        let name = format!("{prefix}{}", accepted.len());
        let yaml = Job::new(&name, "true").yaml();
        let sent = stage
            .client
            .send(Method::POST, "/api/v2/jobs", "text/yaml", yaml);
        match sent.await? {
            (StatusCode::ACCEPTED, _) => accepted.push(name),
            (StatusCode::SERVICE_UNAVAILABLE, text) => return Ok((accepted, text)),
            (status, text) => anyhow::bail!("{status}: {text}"),
        }
        ensure!(start.elapsed() < LIMIT, "a full disk accepts jobs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_full_disk_refuses_jobs_and_loses_none() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let home = AgentHome::new(SIMULATED)?;
    home.mount_state(DISK_BYTES)?;
    let mut stage = Stage::at(home).await?;
    let talk = "i=0\nwhile [ $i -lt 30 ]; do i=$((i+1)); echo line $i; usleep 50000; done; exit 4";
    stage.runs(&Job::new("across", talk)).await?;
    let filler = stage.home.state().join("filler");
    fill(&filler)?;
    let (mut accepted, text) = refusal(&stage, "first").await?;
    ensure!(
        text.contains("state") && text.contains("\"message\""),
        "{text}"
    );
    let page = stage.problems(Some("is full")).await?;
    assert!(page.contains("make room"), "{page}");
    assert!(stage.client.text("/status").await?.contains("is full"));
    // Its commands go on although their output cannot be kept.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.agent.kill()?;
    let restarted = stage.home.muster_for(&["agent"], Duration::from_secs(2))?;
    let text = String::from_utf8_lossy(&restarted.stderr).into_owned();
    let told = text.contains("No space left on device") || text.contains("the agent is up");
    assert!(told, "{text}");
    std::fs::remove_file(&filler)?;
    stage.crash().await?;
    stage.problems(None).await?;
    stage
        .client
        .submit(&Job::new("after", "true").yaml())
        .await?;
    accepted.push("after".to_owned());
    for name in &accepted {
        let detail = stage.waits(name).await?;
        assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    }
    let detail = stage.waits("across").await?;
    assert_eq!(status(&detail).0, "FAILED", "{detail:#}");
    let events = stage.client.get("/api/v2/jobs/admin~across/events").await?;
    assert_eq!(detail["jobStatus"]["retries"], 0, "{detail:#} {events:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_full_disk_is_left_again_without_a_restart() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let home = AgentHome::new(SIMULATED)?;
    home.mount_state(DISK_BYTES)?;
    let stage = Stage::at(home).await?;
    stage.runs(&Job::new("across", "sleep 2; exit 4")).await?;
    let filler = stage.home.state().join("filler");
    fill(&filler)?;
    let (accepted, _) = refusal(&stage, "first").await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    std::fs::remove_file(&filler)?;
    stage.problems(None).await?;
    for name in &accepted {
        let detail = stage.waits(name).await?;
        assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    }
    let detail = stage.waits("across").await?;
    assert_eq!(status(&detail).0, "FAILED", "{detail:#}");
    let detail = stage.ends(&Job::new("after", "true")).await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_read_only_state_is_told() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let home = AgentHome::new(SIMULATED)?;
    home.mount_state(DISK_BYTES)?;
    drop(home.agent()?);
    home.freeze_state()?;
    let output = home.muster(&["agent"])?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for expect in [&*home.state().to_string_lossy(), "Read-only file system"] {
        assert!(text.contains(expect), "{expect} is not in {text}");
    }
    Ok(())
}
