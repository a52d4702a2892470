//! GPUs of a driver that a text file plays, as the agent tells them to others.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::agent::Agent;
use muster_tests::home::{AgentHome, missing};
use muster_tests::played_driver::PlayedDriver;

use crate::prometheus::checked;

const LIMIT: Duration = Duration::from_secs(60);

fn scraped(home: &AgentHome) -> Result<String> {
    let url = format!("{}/metrics", home.url());
    let told = Command::new("curl").args(["-fsS", &url]).output()?;
    ensure!(told.status.success(), "{told:?}");
    Ok(String::from_utf8(told.stdout)?)
}

/// What `/metrics` tells once it has this line.
async fn told(home: &AgentHome, line: &str) -> Result<String> {
    let begun = Instant::now();
    loop {
        let text = scraped(home)?;
        if text.lines().any(|it| it.starts_with(line)) {
            return Ok(text);
        }
        ensure!(begun.elapsed() < LIMIT, "{line} is not in {text}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gpus_are_told_to_prometheus_and_to_other_exporters() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let driver = PlayedDriver::new(directory.path())?;
    let gpu = "uuid = GPU-0\nname = NVIDIA H100 80GB HBM3\nminor = 3\nmemory = 81559\npci = 00000000:18:00.0\n\
               utilization = 97 40\nmemory.used = 20000\ntemperature = 64\npower = 650000\nenergy = 5\npstate = 8\n\
               throttle = 0\necc.corrected = 0\necc.uncorrected = 2\nremapped = 0 1 0 0\nprocesses = 4711:20000\n\
               gpm = 1\ngpm.2 = 45\ngpm.5 = 30\nfield.230 = 1\n";
    let lines = gpu.lines().map(|line| format!("gpu.0.{line}\n"));
    let text = format!("devices = 1\n{}", lines.collect::<String>());
    driver.answer(&text)?;
    let home = AgentHome::new("")?;
    let _agent = driver.agent(&home)?;
    // Activity is told from the second round on.
    let figures = told(&home, "DCGM_FI_PROF_SM_ACTIVE{").await?;
    checked(&figures)?;
    for line in [
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-0\",pci_bus_id=\"00000000:18:00.0\",device=\"nvidia3\",",
        "gpu_utilization{minor_number=\"3\",vender=\"nvidia\"} 97",
        "muster_gpu_recovery_action{gpu=\"0\",uuid=\"GPU-0\"} 1",
        "muster_gpu_sample_age_seconds ",
    ] {
        ensure!(
            figures.lines().any(|it| it.starts_with(line)),
            "{line}: {figures}"
        );
    }
    // No job has the GPU.
    let jobs = std::fs::read_to_string(home.path().join("gpu-jobs/0"))?;
    ensure!(jobs.is_empty(), "{jobs}");
    Ok(())
}

/// Whether the agent has the driver's library open.
fn is_open(agent: &Agent) -> Result<bool> {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", agent.pid()))?;
    Ok(maps.contains("libnvidia-ml.so.1"))
}

/// Waits until the library has been found so for three seconds: a look at the hardware opens it for a moment.
async fn stays(agent: &Agent, open: bool) -> Result<()> {
    let begun = Instant::now();
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_secs(3) {
        if is_open(agent)? != open {
            since = Instant::now();
        }
        ensure!(begun.elapsed() < LIMIT, "it is not open: {open}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_a_person_holds_can_be_reset() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let directory = tempfile::tempdir()?;
    let driver = PlayedDriver::new(directory.path())?;
    driver.answer(
        "devices = 1\ngpu.0.uuid = GPU-0\ngpu.0.name = NVIDIA A100\ngpu.0.pci = 00000000:18:00.0\n",
    )?;
    let home = AgentHome::new("")?;
    let agent = driver.agent(&home)?;
    stays(&agent, true).await?;
    let name = home.muster(&["node", "show", "-o", "json"])?;
    let name: serde_json::Value = serde_json::from_slice(&name.stdout)?;
    let name = name["id"].as_str().unwrap_or_default().to_owned();
    let held = home.muster(&["node", "hold", &name, "0", "--reason", "to be reset"])?;
    ensure!(held.status.success(), "{held:?}");
    stays(&agent, false).await?;
    let released = home.muster(&["node", "release", &name, "0"])?;
    ensure!(released.status.success(), "{released:?}");
    stays(&agent, true).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_tested_only_while_it_is_cordoned() -> Result<()> {
    if missing().is_some() {
        return Ok(());
    }
    let home = AgentHome::new("")?;
    let _agent = home.agent()?;
    let diagnose = || home.muster(&["node", "diagnose", "-o", "json"]);
    let begun = Instant::now();
    loop {
        let refused = diagnose()?;
        ensure!(refused.status.code() == Some(4), "{refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr).into_owned();
        if told.contains("first muster cordon") {
            break;
        }
        // The leader lists a machine a moment after its start.
        ensure!(begun.elapsed() < LIMIT, "{told}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let shown = home.muster(&["node", "show", "-o", "json"])?;
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout)?;
    let id = shown["id"].as_str().unwrap_or_default();
    let cordoned = home.muster(&["cordon", id, "--reason", "to be tested"])?;
    ensure!(cordoned.status.success(), "{cordoned:?}");
    let begun = Instant::now();
    loop {
        let tested = diagnose()?;
        // What the machine that runs the tests has is not known: something may be bad.
        if matches!(tested.status.code(), Some(0 | 1)) {
            let found: Vec<serde_json::Value> = serde_json::from_slice(&tested.stdout)?;
            ensure!(
                found.iter().any(|one| one["test"] == "inventory"),
                "{found:?}"
            );
            return Ok(());
        }
        // The leader hears of a cordon a moment later.
        ensure!(begun.elapsed() < LIMIT, "{tested:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
