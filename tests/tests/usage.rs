//! Limits of users and groups, with a leader lost in between.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::net::{BareNode, View, Watch};
use serde_json::Value;

use crate::gangs::{LIMIT, Site, waits};
use crate::stage::Job;

const PASSWORD: &str = "correct horse";
const STAYS: &str = "while true; do sleep 0.2; done";
/// Twelve GPUs for all of the lab together, and one job at a time for ann.
const POLICY: &str = "limits:\n- {group: lab, gpus: 12}\n- {user: ann, vc: default, jobs: 1}\n";

fn write(node: &BareNode, name: &str, text: &str) -> Result<String> {
    let path = node.home().join(name);
    std::fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

/// A user of the group, logged in at another node.
async fn user(at: &BareNode, name: &str, group: &str, elsewhere: &BareNode) -> Result<Client> {
    let password = write(at, "password", PASSWORD)?;
    at.prints(&[
        "user",
        "add",
        name,
        "--group",
        group,
        "--password-file",
        &password,
    ])?;
    let begun = Instant::now();
    loop {
        match elsewhere.visitor().logged_in(name, PASSWORD).await {
            Ok(client) => return Ok(client),
            Err(error) => ensure!(begun.elapsed() < LIMIT, "{error:#}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn submits(client: &Client, name: &str, gpu: u32) -> Result<(StatusCode, String)> {
    let job = Job {
        gpu,
        ..Job::new(name, STAYS)
    };
    let sent = client.send(Method::POST, "/api/v2/jobs", "text/yaml", job.yaml());
    sent.await
}

async fn accepted(client: &Client, name: &str, gpu: u32) -> Result<()> {
    let (status, text) = submits(client, name, gpu).await?;
    ensure!(status == StatusCode::ACCEPTED, "{name}: {status} {text}");
    Ok(())
}

/// Waits until a node says that a job waits for this.
fn waits_for(node: &BareNode, job: &str, reason: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        // A node that has just lost the leader is asked again.
        let told = node.json(&["job", "explain", job]);
        let told = told.map_or_else(|error| error.to_string(), |told| told["reason"].to_string());
        if told.contains(reason) {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "{}: {job} {told}", node.name());
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

/// The node that leads the virtual cluster.
fn leading(view: &View) -> Option<usize> {
    let name = view.0["vcs"]["default"]["leader"].as_str()?;
    name.strip_prefix('n')?.parse().ok()
}

fn used(node: &BareNode, who: (&str, &str)) -> Result<Value> {
    let usage = node.json(&["usage", "--all"])?;
    let rows = usage.as_array().context("no list")?;
    let row = rows.iter().find(|row| row[who.0] == who.1);
    Ok(row.with_context(|| format!("{usage:#}"))?.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_limits_of_users_and_groups_hold_with_a_leader_lost() -> Result<()> {
    let Some(mut site) = Site::new(5).await? else {
        return Ok(());
    };
    site.all_vote(LIMIT).await?;
    let root = site.node(2);
    root.prints(&["group", "add", "lab", "--vc", "default"])?;
    root.prints(&["group", "add", "staff", "--vc", "default"])?;
    let ann = user(root, "ann", "lab", site.node(3)).await?;
    let bob = user(root, "bob", "lab", site.node(4)).await?;
    let eve = user(root, "eve", "staff", site.node(5)).await?;
    let policy = write(root, "policy.yaml", POLICY)?;
    root.prints(&["policy", "apply", &policy])?;

    accepted(&ann, "a", 8).await?;
    waits(site.node(4), "ann~a", &["RUNNING"])?;
    accepted(&bob, "b", 4).await?;
    waits(site.node(4), "bob~b", &["RUNNING"])?;
    accepted(&bob, "c", 1).await?;
    let reason = "needs 1 more GPU, and group lab has 12 of 12 allowed in virtual cluster default";
    waits_for(site.node(3), "bob~c", reason)?;
    accepted(&ann, "second", 0).await?;
    waits_for(
        site.node(3),
        "ann~second",
        "ann has 1 of 1 jobs allowed at once",
    )?;
    accepted(&eve, "e", 8).await?;
    waits(site.node(3), "eve~e", &["RUNNING"])?;

    let view = Watch::new(&site.lan, 1..=5).views().await?;
    let lost = view.first().and_then(leading).context("nobody leads")?;
    site.lan.node_mut(lost).kill()?;
    let left: Vec<usize> = (1..=5).filter(|node| *node != lost).collect();
    let [one, other, ..] = left[..] else {
        anyhow::bail!("four are left");
    };
    // It holds for the next leader, who has nothing but the log and what the machines report.
    waits_for(site.node(one), "bob~c", "group lab has 12 of 12 allowed")?;
    waits_for(site.node(other), "ann~second", "ann has 1 of 1 jobs")?;
    let lab = used(site.node(one), ("group", "lab"))?;
    ensure!(
        lab["gpus"]["used"] == 12 && lab["gpus"]["most"] == 12,
        "{lab:#}"
    );
    // Whose job gives something back, another one of the group has it.
    site.node(other).prints(&["job", "stop", "bob~b"])?;
    waits(site.node(one), "bob~c", &["RUNNING"])?;
    waits_for(site.node(one), "ann~second", "ann has 1 of 1 jobs")?;
    let lab = used(site.node(other), ("group", "lab"))?;
    ensure!(lab["gpus"]["used"] == 9, "{lab:#}");
    Ok(())
}
