//! How long a job takes from its submission until its end is seen, against `ctr run --rm` of the
//! same image and command, the two sides in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_tests::client::Client;
use serde_json::{Value, json};

use crate::build::Build;
use crate::ctr::Ctr;
use crate::sample::{Sample, round};
use crate::{Arguments, compared, job, unique};

const LIMIT: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 8;
/// Launches a side in one turn, when several run at once: the sides alternate in blocks.
const BLOCK: usize = 50;

pub(crate) async fn run(arguments: &Arguments, n: usize) -> Result<Value> {
    let mut lines = Vec::new();
    for build in arguments.builds()? {
        lines.push(of(&build, n).await?);
    }
    let mut line = compared(lines.remove(0), lines.first());
    line["n"] = n.into();
    Ok(line)
}

async fn of(build: &Build, n: usize) -> Result<Value> {
    let agent = build.start()?;
    let client = agent.client().await?;
    let ctr = Ctr::new(&build.containerd, &build.namespace).await?;
    for _ in 0..3 {
        through_muster(&client).await?;
        through_ctr(&ctr).await?;
    }
    let (mut muster_1, mut ctr_1) = (Sample::new()?, Sample::new()?);
    for _ in 0..n {
        muster_1.add(through_muster(&client).await?);
        ctr_1.add(through_ctr(&ctr).await?);
    }
    let (mut muster_8, mut ctr_8) = (Sample::new()?, Sample::new()?);
    let (mut muster_time, mut ctr_time) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..n.div_ceil(BLOCK) {
        let client = client.clone();
        let (sample, time) = at_once(move || through_muster_owned(client.clone())).await?;
        muster_8.join(&sample)?;
        muster_time += time;
        let ctr = ctr.clone();
        let (sample, time) = at_once(move || through_ctr_owned(ctr.clone())).await?;
        ctr_8.join(&sample)?;
        ctr_time += time;
    }
    Ok(json!({
        "bench": "launch", "engine": build.engine()?, "ctr_runtime": "runc",
        "ratio_p50_1": round(muster_1.ms(0.5) / ctr_1.ms(0.5)),
        "ratio_p99_1": round(muster_1.ms(0.99) / ctr_1.ms(0.99)),
        "throughput_ratio_8": round(ctr_time.as_secs_f64() / muster_time.as_secs_f64()),
        "ratio_p50_8": round(muster_8.ms(0.5) / ctr_8.ms(0.5)),
        "ratio_p99_8": round(muster_8.ms(0.99) / ctr_8.ms(0.99)),
        "muster_p50_1_ms": muster_1.ms(0.5), "muster_p99_1_ms": muster_1.ms(0.99),
        "ctr_p50_1_ms": ctr_1.ms(0.5), "ctr_p99_1_ms": ctr_1.ms(0.99),
        "muster_p50_8_ms": muster_8.ms(0.5), "muster_p99_8_ms": muster_8.ms(0.99),
        "ctr_p50_8_ms": ctr_8.ms(0.5), "ctr_p99_8_ms": ctr_8.ms(0.99),
    }))
}

/// `BLOCK` launches, `AT_ONCE` at a time; their times, and the time of all.
async fn at_once<F, R>(launch: F) -> Result<(Sample, Duration)>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<Duration>> + Send + 'static,
{
    let launch = Arc::new(launch);
    let left = Arc::new(AtomicUsize::new(BLOCK));
    let start = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..AT_ONCE {
        let (launch, left) = (launch.clone(), left.clone());
        workers.push(tokio::spawn(async move {
            let mut sample = Sample::new()?;
            let take = |n: usize| n.checked_sub(1);
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
            {
                sample.add(launch().await?);
            }
            anyhow::Ok(sample)
        }));
    }
    let mut all = Sample::new()?;
    for worker in workers {
        all.join(&worker.await??)?;
    }
    Ok((all, start.elapsed()))
}

async fn through_muster_owned(client: Client) -> Result<Duration> {
    through_muster(&client).await
}

async fn through_muster(client: &Client) -> Result<Duration> {
    let name = unique("launch");
    let start = Instant::now();
    client.submit(&job(&name, 1, "true")).await?;
    let detail = client.wait_final(&format!("admin~{name}"), LIMIT).await?;
    let time = start.elapsed();
    let state = &detail["jobStatus"]["state"];
    ensure!(
        state == "SUCCEEDED",
        "{name} ended {state}: {}",
        detail["jobStatus"]
    );
    Ok(time)
}

async fn through_ctr_owned(ctr: Ctr) -> Result<Duration> {
    through_ctr(&ctr).await
}

async fn through_ctr(ctr: &Ctr) -> Result<Duration> {
    let id = unique("ctr");
    let start = Instant::now();
    let output = ctr.run(&[], &id, &["true"]).output().await?;
    let time = start.elapsed();
    ensure!(
        output.status.success(),
        "ctr run failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(time)
}
