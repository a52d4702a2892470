//! Machines that admins keep free, or say are off, and what becomes of the jobs there.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{BareNode, Watch};
use serde_json::Value;

use crate::gangs::{LIMIT, Site, ends, holds_nothing, said, submit, waits};
use crate::stage::Job;

/// Goes on for ever at first, and ends at once in any later attempt.
const STAYS: &str = "\
echo began $FC_FRAMEWORK_ATTEMPT_ID
while [ $FC_FRAMEWORK_ATTEMPT_ID = 0 ]; do sleep 0.2; done";

/// The nodes on which this attempt of a job began.
fn began(site: &Site, attempt: u32) -> Vec<usize> {
    let lines = said(&site.lan, "began").into_iter();
    let of = lines.filter(|(_, line)| *line == format!("began {attempt}"));
    of.map(|(node, _)| node).collect()
}

/// Waits until so many tasks of the attempt have begun: where.
fn begins(site: &Site, attempt: u32, tasks: usize) -> Result<Vec<usize>> {
    let start = Instant::now();
    loop {
        let nodes = began(site, attempt);
        if nodes.len() == tasks {
            return Ok(nodes);
        }
        ensure!(
            start.elapsed() < LIMIT,
            "attempt {attempt} began on {nodes:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn uncharged(detail: &Value) -> Result<()> {
    ensure!(
        detail["summary"]["retries"]["accountable"] == 0,
        "{detail:#}"
    );
    ensure!(detail["attempt"]["id"] == 1, "{detail:#}");
    Ok(())
}

fn scheduling(node: &BareNode, of: &str) -> Result<Value> {
    let view = node.json(&["cluster", "members"])?;
    let members = view["members"].as_array().context("members")?;
    let member = members.iter().find(|member| member["name"] == of);
    Ok(member.context("no such member")?["scheduling"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_drained_nodes_gang_goes_on_elsewhere() -> Result<()> {
    let Some(site) = Site::new(3).await? else {
        return Ok(());
    };
    // Eight simulated GPUs a node: each task takes one whole.
    let job = Job {
        gpu: 8,
        instances: 2,
        ..Job::new("moves", STAYS)
    };
    submit(site.node(1), &job)?;
    let first = begins(&site, 0, 2)?;
    let drained = first[1];
    let name = site.node(drained).name();
    let asked = site.node(drained % 3 + 1);
    let start = Instant::now();
    asked.prints(&["drain", &name, "--reason", "new disks"])?;
    println!("empty {:?} after it was asked for", start.elapsed());
    // What is left of its container is cleared away a moment later.
    holds_nothing(site.node(drained))?;
    uncharged(&ends(asked, "moves")?)?;
    let second = began(&site, 1);
    ensure!(
        second.len() == 2 && !second.contains(&drained),
        "{name} is drained, and {second:?} were used"
    );
    // Every member says so, and with it nobody can have all three.
    for node in site.lan.nodes() {
        let word = scheduling(node, &name)?;
        ensure!(word["mode"] == "draining", "{}: {word}", node.name());
        ensure!(word["reason"] == "new disks", "{}: {word}", node.name());
    }
    let all = Job {
        gpu: 8,
        instances: 3,
        ..Job::new("all", "true")
    };
    submit(asked, &all)?;
    let detail = waits(asked, "all", &["WAITING"])?;
    std::thread::sleep(Duration::from_secs(1));
    let detail = asked.json(&["job", "show", "all"]).unwrap_or(detail);
    ensure!(detail["state"] == "WAITING", "{detail:#}");
    asked.prints(&["undrain", &name])?;
    ends(asked, "all")?;
    Ok(())
}

/// A machine that had a task of a job without a run lease, and is cut off from the others.
struct Lost {
    victim: usize,
    name: String,
    /// One that is left.
    asked: usize,
}

async fn lose_one(site: &mut Site) -> Result<Lost> {
    site.all_vote(LIMIT).await?;
    let job = Job {
        gpu: 8,
        instances: 2,
        // Without the admin's word it would wait for the node for ever.
        extra: "extras: {muster: {partition: {policy: hold}}}",
        ..Job::new("held", STAYS)
    };
    submit(site.node(1), &job)?;
    let first = begins(site, 0, 2)?;
    let victim = first.into_iter().find(|node| *node != 1);
    let victim = victim.context("both tasks are on one node")?;
    let name = site.node(victim).name();
    let early = site
        .node(1)
        .refused(&["cluster", "off", &name, "--yes"], 4)?;
    ensure!(early.contains("is not unreachable"), "{early}");
    site.lan.node_mut(victim).kill()?;
    site.lan.cut_node(victim)?;
    let others: Vec<usize> = (1..=3).filter(|node| *node != victim).collect();
    let gone = |view: &muster_tests::net::View| view.state(&name) == "unreachable";
    let watch = Watch::new(&site.lan, others);
    watch.each("it is unreachable", LIMIT, gone).await?;
    let asked = victim % 3 + 1;
    Ok(Lost {
        victim,
        name,
        asked,
    })
}

/// Once somebody says that the machine is off, the job goes on. Another machine's worth of room is free:
/// the second attempt begins without the first node.
fn goes_on_without(site: &Site, lost: &Lost) -> Result<()> {
    let Lost {
        victim,
        name,
        asked,
    } = lost;
    let asked = site.node(*asked);
    let detail = asked.json(&["job", "show", "held"])?;
    ensure!(detail["state"] == "RUNNING", "{detail:#}");
    asked.prints(&["cluster", "off", name, "--yes"])?;
    uncharged(&ends(asked, "held")?)?;
    ensure!(!began(site, 1).contains(victim), "placed on {name}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_was_on_a_node_that_is_off_goes_on_elsewhere() -> Result<()> {
    let Some(mut site) = Site::new(3).await? else {
        return Ok(());
    };
    let lost = lose_one(&mut site).await?;
    goes_on_without(&site, &lost)?;
    // It was not off at all: what ran there ends when it is back.
    site.lan.heal()?;
    site.lan.node_mut(lost.victim).start()?;
    holds_nothing(site.node(lost.victim))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_what_was_on_a_node_that_was_expelled_goes_on_elsewhere() -> Result<()> {
    let Some(mut site) = Site::new(3).await? else {
        return Ok(());
    };
    let lost = lose_one(&mut site).await?;
    let asked = site.node(lost.asked);
    let expelled = asked.muster(&["cluster", "expel", &lost.name])?;
    let told = String::from_utf8_lossy(&expelled.stderr);
    ensure!(expelled.status.success(), "{told}");
    for part in ["tasks of admin~held", "muster cluster off"] {
        ensure!(told.contains(part), "{part} in {told}");
    }
    goes_on_without(&site, &lost)?;
    asked.refused(&["cluster", "off", "n9", "--yes"], 4)?;
    Ok(())
}
