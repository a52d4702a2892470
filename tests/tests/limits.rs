//! Limits of a job that bite, and what its user reads then.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::home;

use crate::stage::{Job, SIMULATED, Stage, status};

/// One log file of the flood's test.
const LOG_BYTES: u64 = 1 << 20;
/// Four logs with an older part each, and some small files.
const TASK_BYTES_MAX: u64 = 8 * LOG_BYTES + (64 << 10);
/// How long a task may take for some lines while its neighbour floods.
const NEIGHBOUR_LIMIT: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn containerd_limits_bite_and_are_explained() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::with(SIMULATED).await?;
    stage.policy("tasks: {pids: 32, disk_mb: 8}")?;
    let forks = "i=0; while [ $i -lt 64 ]; do sleep 9 & i=$((i+1)); done; wait";
    let layer = "head -c 32m /dev/zero > /big; sleep 60";
    let shared = "dd if=/dev/zero of=/dev/shm/big bs=1M count=32";
    let memory = "exec tail -c 200m /dev/zero";
    let small = |name, commands| Job {
        memory_mb: 32,
        ..Job::new(name, commands)
    };
    let jobs = [
        (small("memory", memory), Some(-1200), "memory"),
        (Job::new("forks", forks), None, "can't fork"),
        (
            Job::new("layer", layer),
            Some(-1000),
            "over its limit of 8 MiB",
        ),
        (
            Job {
                role: "extraContainerOptions: {shmMB: 8}",
                ..Job::new("shared", shared)
            },
            None,
            "No space left on device",
        ),
    ];
    for (job, ..) in &jobs {
        stage.client.submit(&job.yaml()).await?;
    }
    for (job, code, expect) in &jobs {
        let detail = stage.waits(job.name).await?;
        let (state, found, _) = status(&detail);
        assert_eq!(state, "FAILED", "{}: {detail:#}", job.name);
        if let Some(code) = code {
            assert_eq!(found, *code, "{}: {detail:#}", job.name);
        }
        let shown = stage.home.muster(&["job", "show", job.name])?;
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        let log = stage.log(&detail, "stderr").await?;
        let told = text.contains(expect) || log.contains(expect);
        assert!(told, "{}: {text}\n{log}", job.name);
    }
    Ok(())
}

/// `MUSTER_FLOOD_MB` makes it as big as one likes.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_flood_of_output_costs_bounded_disk_and_no_neighbour() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::with(&format!("{SIMULATED}[tasks]\nlog_bytes = {LOG_BYTES}\n")).await?;
    let megabytes = std::env::var("MUSTER_FLOOD_MB").unwrap_or_else(|_| "200".to_owned());
    let flood = format!("head -c {megabytes}m /dev/zero | tr '\\0' x\necho the last line >&2");
    stage.runs(&Job::new("flood", &flood)).await?;
    let talk = "i=0; while [ $i -lt 1000 ]; do i=$((i+1)); echo line $i; done";
    let start = Instant::now();
    let neighbour = stage.ends(&Job::new("neighbour", talk)).await?;
    ensure!(start.elapsed() < NEIGHBOUR_LIMIT, "{:?}", start.elapsed());
    let expect: String = (1..=1000).map(|i| format!("line {i}\n")).collect();
    assert_eq!(stage.log(&neighbour, "stdout").await?, expect);
    let detail = stage.waits("flood").await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    assert_eq!(stage.log(&detail, "stderr").await?, "the last line\n");
    for task in std::fs::read_dir(stage.home.state().join("tasks"))? {
        let used = bytes_in(&task?.path().join("log"))?;
        ensure!(used < TASK_BYTES_MAX, "{used} bytes of logs");
    }
    Ok(())
}

fn bytes_in(directory: &Path) -> Result<u64> {
    std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}

/// Logs over the limit of all logs are gone after a restart; the unfinished task keeps its own.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_old_logs_are_swept() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::with(&format!("{SIMULATED}[tasks]\nlogs_bytes_max = 30000\n")).await?;
    for name in ["old", "new"] {
        let talk = "head -c 10000 /dev/zero";
        assert_eq!(
            status(&stage.ends(&Job::new(name, talk)).await?).0,
            "SUCCEEDED"
        );
    }
    let run = "echo here; sleep 30";
    stage.runs(&Job::new("runs", run)).await?;
    let start = Instant::now();
    while !stage.outputs("stdout")?.iter().any(|log| log == "here\n") {
        ensure!(start.elapsed() < Duration::from_secs(20), "nothing is said");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stage.crash().await?;
    let start = Instant::now();
    let left = loop {
        let left = stage.outputs("stdout")?;
        if left.len() < 3 {
            break left;
        }
        ensure!(
            start.elapsed() < Duration::from_secs(20),
            "nothing was removed"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.iter().any(|log| log == "here\n"), "{left:?}");
    Ok(())
}
