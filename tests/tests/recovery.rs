//! A small cluster loses most of its machines, and with them everything that decides. What is left goes on.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{BareNode, View, Watch};
use serde_json::Value;

use crate::gangs::{LIMIT, Site, ends, submit, waits};
use crate::stage::Job;

const STAYS: &str = "while true; do sleep 0.2; done";

/// How something would go on, as soon as it is known who is gone.
pub(crate) fn plan(node: &BareNode, what: &[&str]) -> Result<Value> {
    let begun = Instant::now();
    loop {
        let plan = node.json(&[&["cluster", "recover"], what].concat());
        if plan.is_ok() || begun.elapsed() > LIMIT {
            return plan;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Has it go on without these.
fn recover(node: &BareNode, what: &[&str], lost: &str) -> Result<()> {
    let plan = plan(node, what)?;
    let missing = plan["missing"].as_array().into_iter().flatten();
    let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
    ensure!(missing.join(",") == lost, "{plan}");
    let lost = ["--lost", lost];
    node.prints(&[&["cluster", "recover"], what, &lost].concat())?;
    Ok(())
}

/// How many vote in a group that somebody leads, and are there.
fn votes(led: &Value) -> usize {
    let count = |field: &str| led[field].as_array().map_or(0, Vec::len);
    match led["leader"].is_string() {
        true => count("voters") - count("away"),
        false => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_cluster_of_three_goes_on_with_what_one_of_them_knows() -> Result<()> {
    let Some(mut site) = Site::new(3).await? else {
        return Ok(());
    };
    let three = |view: &View| {
        let both = [&view.0["leadership"], &view.0["vcs"]["default"]];
        both.iter().all(|led| votes(led) == 3)
    };
    let all = Watch::new(&site.lan, 1..=3);
    all.each("three vote", LIMIT, three).await?;
    let names = ["one", "two", "three"];
    for name in names {
        let job = Job {
            gpu: 8,
            ..Job::new(name, STAYS)
        };
        submit(site.node(2), &job)?;
    }
    for name in names {
        waits(site.node(3), name, &["RUNNING"])?;
    }
    // The founder, which alone has the root key, is among those that are lost.
    for number in [1, 2] {
        site.lan.node_mut(number).kill()?;
    }
    let left = site.node(3);
    let begun = Instant::now();
    recover(left, &[], "n1,n2")?;
    println!("the cluster went on {:?} later", begun.elapsed());
    let begun = Instant::now();
    recover(left, &["--vc", "default"], "n1,n2")?;
    submit(left, &Job::new("short", "true"))?;
    ends(left, "short")?;
    println!("its jobs went on {:?} later", begun.elapsed());
    let view = Watch::new(&site.lan, [3]).views().await?;
    let view = view.first().context("no view")?;
    ensure!(view.0["cluster"]["generation"] == 2, "{:#}", view.0);
    // An agent that is started anew goes on with what the cluster is by now, and so do those that were lost.
    site.lan.node_mut(3).stop()?;
    for number in [3, 1, 2] {
        site.lan.node_mut(number).start()?;
    }
    all.each("three vote again", LIMIT, three).await?;
    let begun = Instant::now();
    let late = Job::new("late", "true");
    while let Err(why) = submit(site.node(1), &late) {
        // It has to hear first which virtual clusters there are.
        ensure!(begun.elapsed() < LIMIT, "{why:#}");
        std::thread::sleep(Duration::from_millis(200));
    }
    ends(site.node(2), "late")?;
    for name in names {
        let detail = waits(site.node(1), name, &["RUNNING"])?;
        let retries = &detail["summary"]["retries"]["total"];
        ensure!(retries == 0, "{name} was started anew: {detail:#}");
    }
    Ok(())
}
