//! Where jobs go, who gives way to whom, and what is said about it, through the whole product.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use muster_tests::home::{self, AgentHome};
use serde_json::Value;

use crate::stage::{Job, LIMIT, SIMULATED, Stage, status};

/// Runs until it is stopped.
const FOREVER: &str = "trap 'exit 0' TERM; while :; do sleep 0.1; done";

/// Jobs that give way end soon.
const QUICK: &str = "tasks: {stop_grace_ms: 2000}";
const QUICK_GRACE: Duration = Duration::from_secs(2);

/// The device indices of a task that runs, in order.
async fn devices(stage: &Stage, name: &str) -> Result<Vec<u64>> {
    let path = format!("/api/muster/v1/jobs/admin~{name}");
    let detail = stage.client.get(&path).await?;
    let attempts = &detail["roles"][0]["tasks"][0]["attempts"];
    let last = attempts.as_array().and_then(|all| all.last());
    let devices = last.and_then(|last| last["devices"].as_array());
    let mut devices: Vec<u64> = devices
        .with_context(|| format!("{detail:#}"))?
        .iter()
        .filter_map(Value::as_u64)
        .collect();
    devices.sort_unstable();
    Ok(devices)
}

fn job<'a>(name: &'a str, gpu: u32, extra: &'a str) -> Job<'a> {
    Job {
        gpu,
        extra,
        ..Job::new(name, FOREVER)
    }
}

async fn stop(stage: &Stage, name: &str) -> Result<()> {
    stage.home.muster(&["job", "stop", name, "--wait"])?;
    Ok(())
}

/// The state and the retries of a job: all, and those charged to its user.
async fn standing(stage: &Stage, name: &str) -> Result<(String, u64, u64)> {
    let path = format!("/api/muster/v1/jobs/admin~{name}");
    let summary = stage.client.get(&path).await?["summary"].take();
    let retries = &summary["retries"];
    let shown = stage.home.muster(&["job", "show", name, "-o", "json"])?;
    let shown: Value = serde_json::from_slice(&shown.stdout)?;
    Ok((
        shown["state"].as_str().unwrap_or_default().to_owned(),
        retries["total"].as_u64().unwrap_or(u64::MAX),
        retries["accountable"].as_u64().unwrap_or(u64::MAX),
    ))
}

const TEST: &str = "extras: {hivedScheduler: {jobPriorityClass: test}}";
const PROD: &str = "extras: {hivedScheduler: {jobPriorityClass: prod}}";
const OPPO: &str = "extras: {hivedScheduler: {jobPriorityClass: oppo}}";

#[tokio::test(flavor = "multi_thread")]
async fn containerd_jobs_get_the_lowest_common_cell() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    // 8 devices: two sockets of four, each with two switches of two.
    stage.runs(&job("one", 1, "")).await?;
    stage.runs(&job("pair", 2, "")).await?;
    stage.runs(&job("four", 4, "")).await?;
    let one = devices(&stage, "one").await?[0];
    let pair = devices(&stage, "pair").await?;
    let four = devices(&stage, "four").await?;
    ensure!(pair[0] % 2 == 0 && pair[1] == pair[0] + 1, "pair: {pair:?}");
    ensure!(
        pair[0] / 4 == one / 4,
        "the full socket is kept whole: {one} {pair:?}"
    );
    ensure!(
        four == [0, 1, 2, 3] || four == [4, 5, 6, 7],
        "four: {four:?}"
    );
    // What is left is the other device behind the first one's switch; two on one switch wait.
    let near = "extras: {muster: {taskRoles: {main: {topology: {level: pcie}}}}}";
    stage.runs(&job("beside", 1, "")).await?;
    assert_eq!(devices(&stage, "beside").await?, [one ^ 1]);
    stage.client.submit(&job("near", 2, near).yaml()).await?;
    stop(&stage, "beside").await?;
    stop(&stage, "pair").await?;
    let found = stage
        .client
        .wait("admin~near", LIMIT, |s| s == "RUNNING")
        .await?;
    ensure!(status(&found).0 == "RUNNING", "{found:#}");
    assert_eq!(devices(&stage, "near").await?, pair);
    for name in ["one", "four", "near"] {
        stop(&stage, name).await?;
    }
    stage.holds_nothing().await
}

/// An edit of the policy counts for jobs that run and wait already, and outlives the agent.
#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_new_policy_holds_at_once_and_after_a_restart() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let mut stage = Stage::with(SIMULATED).await?;
    stage.policy("{placement: {min_run_s: 3600}, tasks: {stop_grace_ms: 2000}}")?;
    stage.runs(&job("low", 8, TEST)).await?;
    stage.client.submit(&job("high", 8, PROD).yaml()).await?;
    let waits = |state: &str| state == "WAITING";
    stage.client.wait("admin~high", LIMIT, waits).await?;
    // By then it would have given way.
    tokio::time::sleep(2 * QUICK_GRACE).await;
    assert_eq!(standing(&stage, "low").await?, ("RUNNING".to_owned(), 0, 0));
    stage.policy(QUICK)?;
    let runs = |state: &str| state == "RUNNING";
    stage.client.wait("admin~high", LIMIT, runs).await?;
    assert_eq!(standing(&stage, "low").await?, ("WAITING".to_owned(), 1, 0));
    stage.crash().await?;
    let shown = stage.home.muster(&["policy", "show"])?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert_eq!(text.trim(), format!("# muster policy version 2\n{QUICK}"));
    stop(&stage, "high").await?;
    stop(&stage, "low").await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_prod_preempts_test_and_the_victim_is_not_charged() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::with(SIMULATED).await?;
    stage.policy(QUICK)?;
    stage.runs(&job("low", 6, TEST)).await?;
    stage.runs(&job("other", 2, TEST)).await?;
    stage.runs(&job("high", 4, PROD)).await?;
    // One victim is enough: the other goes on, undisturbed.
    assert_eq!(standing(&stage, "low").await?, ("WAITING".to_owned(), 1, 0));
    assert_eq!(
        standing(&stage, "other").await?,
        ("RUNNING".to_owned(), 0, 0)
    );
    let shown = stage.home.muster(&["job", "explain", "low"])?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(
        text.contains("admin~high") && text.contains("blocked by"),
        "{text}"
    );
    let events = stage.client.get("/api/v2/jobs/admin~low/events").await?;
    ensure!(
        events.to_string().contains("It gives way to admin~high"),
        "{events:#}"
    );
    stop(&stage, "high").await?;
    stage
        .client
        .wait("admin~low", LIMIT, |s| s == "RUNNING")
        .await?;
    assert_eq!(standing(&stage, "low").await?, ("RUNNING".to_owned(), 1, 0));
    for name in ["low", "other"] {
        stop(&stage, name).await?;
    }
    stage.holds_nothing().await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_job_that_waits_is_explained() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let bounded = "extras: {muster: {maxRunTime: 600}}";
    stage.runs(&job("first", 6, bounded)).await?;
    stage.client.submit(&job("second", 4, "").yaml()).await?;
    let shown = stage
        .home
        .muster(&["job", "explain", "second", "-o", "json"])?;
    let told: Value = serde_json::from_slice(&shown.stdout)?;
    let gang = &told["gangs"][0];
    assert_eq!(told["state"], "WAITING", "{told:#}");
    assert_eq!(gang["holders"][0]["job"]["name"], "first", "{told:#}");
    assert_eq!(gang["lacks"][0]["missing"], 2, "{told:#}");
    assert_eq!(gang["earliest"]["when"], "at", "{told:#}");
    let shown = stage.home.muster(&["job", "explain", "second"])?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(
        text.contains("admin~first") && text.contains("ends by"),
        "{text}"
    );
    let huge = Job {
        memory_mb: 64,
        ..job("huge", 9, "")
    };
    let refused = stage.client.submit(&huge.yaml()).await;
    let text = refused.err().map(|error| error.to_string());
    ensure!(
        text.as_ref().is_some_and(
            |text| text.contains("never start") && text.contains("resourcePerInstance.gpu")
        ),
        "{text:?}"
    );
    for name in ["first", "second"] {
        stop(&stage, name).await?;
    }
    stage.holds_nothing().await
}

/// Two virtual clusters on the simulated machine, as HiveD's file describes them. `NODE` stands
/// for the machine's name.
const SHARED: &str = "\
physicalCluster:
  skuTypes:
    V100: {gpu: 1, cpu: 4, memory: 512Mi}
  cellTypes:
    V100-PCIE: {childCellType: V100, childCellNumber: 2}
    V100-NUMA: {childCellType: V100-PCIE, childCellNumber: 2}
    V100-NODE: {childCellType: V100-NUMA, childCellNumber: 2, isNodeLevel: true}
  physicalCells:
  - {cellType: V100-NODE, cellAddress: NODE}
virtualClusters:
  default:
    virtualCells: [{cellType: V100-NODE.V100-NUMA, cellNumber: 1}]
  vision:
    virtualCells: [{cellType: V100-NODE.V100-NUMA, cellNumber: 1}]
";

async fn shared() -> Result<Stage> {
    let home = AgentHome::new(SIMULATED)?;
    let file = home.path().join("cluster.yaml");
    let node = format!("cellAddress: {}", home::NODE);
    std::fs::write(&file, SHARED.replace("cellAddress: NODE", &node))?;
    let stage = Stage::at(home).await?;
    let file = file.display().to_string();
    let applied = stage.home.muster(&["vc", "apply", &file, "--yes"])?;
    ensure!(applied.status.success(), "{applied:?}");
    stage.policy(QUICK)?;
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_promise_to_a_virtual_cluster_is_kept() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = shared().await?;
    let vision = "defaults: {virtualCluster: vision}";
    // Half of the machine is promised to each; what is idle is anybody's, until it is claimed.
    stage.runs(&job("own", 4, PROD)).await?;
    stage.runs(&job("guest", 4, OPPO)).await?;
    stage.client.submit(&job("more", 1, PROD).yaml()).await?;
    stage.runs(&job("owner", 2, vision)).await?;
    assert_eq!(standing(&stage, "guest").await?.2, 0);
    assert_eq!(standing(&stage, "own").await?.0, "RUNNING");
    let shown = stage.home.muster(&["job", "explain", "more"])?;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    ensure!(text.contains("admin~own"), "{text}");
    for name in ["own", "guest", "more", "owner"] {
        stop(&stage, name).await?;
    }
    stage.holds_nothing().await
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_no_virtual_cluster_has_is_refused() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = shared().await?;
    let role = "extras: {hivedScheduler: {taskRoles: {main: {skuType: A100}}}}";
    for (name, gpu, extra, expect) in [
        ("vc", 1, "defaults: {virtualCluster: nowhere}", "nowhere"),
        ("sku", 1, role, "A100"),
        ("large", 5, "", "4"),
    ] {
        let yaml = job(name, gpu, extra).yaml();
        let answer = stage.client.submit(&yaml).await;
        let error = answer
            .err()
            .with_context(|| format!("{name} was accepted"))?;
        ensure!(format!("{error:#}").contains(expect), "{name}: {error:#}");
    }
    Ok(())
}
