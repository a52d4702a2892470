//! What happens to tasks when the agent or containerd goes away: nothing.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::home::{self, AgentHome};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::stage::{Job, LIMIT, SIMULATED, Stage, status};

/// How soon after its start an agent knows again what runs and what has ended.
const ADOPTION_LIMIT: Duration = Duration::from_secs(2);
/// How soon a hung containerd is told of.
const HANG_LIMIT: Duration = Duration::from_secs(20);

fn lines(count: u32) -> String {
    (1..=count).map(|i| format!("line {i}\n")).collect()
}

fn nothing_was_retried(detail: &Value) {
    assert_eq!(detail["jobStatus"]["retries"], 0, "{detail:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_tasks_survive_a_killed_agent() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let talk = "i=0\nwhile [ $i -lt 100 ]; do i=$((i+1)); echo line $i; usleep 30000; done\nexit 3";
    let ends =
        ["exit 0", "exit 5", "kill -SEGV $$", "exit 42"].map(|end| format!("sleep 1; {end}"));
    let short: Vec<(String, &String)> =
        (0..).map(|i: u32| format!("short{i}")).zip(&ends).collect();
    stage.runs(&Job::new("long", talk)).await?;
    for (name, commands) in &short {
        stage.runs(&Job::new(name, commands)).await?;
    }
    stage.agent.kill()?;
    // They end while nobody looks; their loggers keep the exits.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    let start = Instant::now();
    stage.crash().await?;
    for ((name, _), expect) in short.iter().zip([0, 5, 139, 42]) {
        let detail = stage.waits(name).await?;
        let task = &detail["taskRoles"]["main"]["taskStatuses"][0];
        let ended = if expect == 0 { "SUCCEEDED" } else { "FAILED" };
        assert_eq!(status(&detail).0, ended, "{detail:#}");
        assert_eq!(raw_code(&stage, task)?, expect, "{detail:#}");
        nothing_was_retried(&detail);
    }
    ensure!(start.elapsed() < ADOPTION_LIMIT, "{:?}", start.elapsed());
    let detail = stage.waits("long").await?;
    assert_eq!(status(&detail).0, "FAILED", "{detail:#}");
    nothing_was_retried(&detail);
    assert_eq!(stage.log(&detail, "stdout").await?, lines(100));
    Ok(())
}

/// The exit code that the task's own process had, as its logger kept it.
fn raw_code(stage: &Stage, task: &Value) -> Result<i64> {
    let uid = task["containerId"].as_str().unwrap_or_default();
    let report = stage.home.state().join("tasks").join(uid).join("exit.json");
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    Ok(report["code"].as_i64().unwrap_or(i64::MIN))
}

/// Kills right after the acceptance, and ends the agent in order in between: every job runs its
/// commands once.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_accepted_jobs_run_once_whatever_happens_to_the_agent() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let names: Vec<String> = (0..6).map(|i| format!("once{i}")).collect();
    for (i, name) in (0_u64..).zip(&names) {
        let commands = format!("echo begin {name} $PAI_TASK_INDEX\nsleep 1\necho end");
        let job = Job {
            instances: 2,
            ..Job::new(name, &commands)
        };
        stage.client.submit(&job.yaml()).await?;
        tokio::time::sleep(Duration::from_millis(i * 100)).await;
        if i % 3 == 2 {
            stage.agent.terminate()?;
        }
        stage.crash().await?;
    }
    for name in &names {
        let detail = stage.waits(name).await?;
        assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    }
    let outputs = stage.outputs("stdout")?.concat();
    for name in &names {
        for index in 0..2 {
            let begin = format!("begin {name} {index}\n");
            assert_eq!(outputs.matches(&begin).count(), 1, "{begin} in {outputs}");
        }
    }
    assert_eq!(
        outputs.matches("end\n").count(),
        2 * names.len(),
        "{outputs}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_tasks_survive_a_restart_of_containerd() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let commands = "sleep 2; echo after";
    stage.runs(&Job::new("across", commands)).await?;
    stage.home.kill_containerd()?;
    let waits = Job::new("waits", "true").yaml();
    stage.client.submit(&waits).await?;
    stage.problems(Some("no task can start")).await?;
    stage.home.start_containerd()?;
    let detail = stage.waits("across").await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    nothing_was_retried(&detail);
    assert_eq!(stage.log(&detail, "stdout").await?, "after\n");
    let detail = stage.waits("waits").await?;
    assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
    stage.problems(None).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_that_hangs_is_told_of_and_costs_no_job() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    stage
        .runs(&Job::new("across", "sleep 4; echo after"))
        .await?;
    stage.home.signal_containerd(Signal::SIGSTOP)?;
    stage
        .client
        .submit(&Job::new("waits", "true").yaml())
        .await?;
    let start = Instant::now();
    let page = stage.problems(Some("no task can start")).await?;
    ensure!(
        start.elapsed() < HANG_LIMIT,
        "{:?}: {page}",
        start.elapsed()
    );
    let status_page = stage.client.text("/status").await?;
    assert!(status_page.contains("no task can start"), "{status_page}");
    // What runs is not touched, and its end is seen without containerd.
    let held = stage.client.get("/api/v2/jobs/admin~waits").await?;
    assert!(
        ["WAITING", "RUNNING"].contains(&status(&held).0),
        "{held:#}"
    );
    stage.home.signal_containerd(Signal::SIGCONT)?;
    for (name, output) in [("across", "after\n"), ("waits", "")] {
        let detail = stage.waits(name).await?;
        assert_eq!(status(&detail).0, "SUCCEEDED", "{detail:#}");
        assert_eq!(stage.log(&detail, "stdout").await?, output);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_agent_that_cannot_have_its_place_says_why() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let home = AgentHome::new(SIMULATED)?;
    let _agent = home.agent()?;
    let output = home.muster(&["agent"])?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("agent.lock"), "{text}");
    Ok(())
}

/// What the ledger does not know of uses what it takes for free: it goes before anything is granted.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_containers_of_a_lost_ledger_go_before_their_devices_are_granted() -> Result<()>
{
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::new().await?;
    let job = Job {
        gpu: 8,
        ..Job::new("all", "sleep 600")
    };
    let before = container(&stage.runs(&job).await?);
    stage.agent.kill()?;
    std::fs::remove_file(stage.home.state().join("ledger.redb"))?;
    stage.crash().await?;
    let start = Instant::now();
    let detail = loop {
        let is_running = |state: &str| state == "RUNNING";
        let detail = stage.client.wait("admin~all", LIMIT, is_running).await?;
        if container(&detail) != before {
            break detail;
        }
        ensure!(start.elapsed() < LIMIT, "{detail:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let listed = stage.home.ctr(&["containers", "list", "-q"])?.stdout;
    let listed = String::from_utf8_lossy(&listed);
    assert_eq!(listed.trim(), container(&detail), "only the second one");
    // Nobody is charged for what the node lost.
    let status = &detail["jobStatus"];
    assert_eq!(status["retries"], 1, "{detail:#}");
    assert_eq!(status["retryDetails"]["user"], 0, "{detail:#}");
    stage.home.muster(&["job", "stop", "admin~all"])?;
    stage.holds_nothing().await
}

/// The container of the first task.
fn container(detail: &Value) -> String {
    let task = &detail["taskRoles"]["main"]["taskStatuses"][0];
    task["containerId"].as_str().unwrap_or_default().to_owned()
}
