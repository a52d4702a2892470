//! Virtual clusters by the cluster's own description: applied, asked about, taken back.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::{Lan, Node, View, Watch};
use serde_json::Value;

use crate::gangs::{LIMIT, Site, ends, submit, waits};
use crate::stage::Job;

const VISION: &str = "defaults: {virtualCluster: vision}";
const STAYS: &str = "while true; do sleep 0.2; done";

/// A promise of so many machines to each.
fn promises(cell_type: &str, vcs: &[(&str, u32)]) -> String {
    let promise = |(name, count): &(&str, u32)| {
        format!(
            "  {name}:\n    virtualCells:\n    - {{cellType: {cell_type}, cellNumber: {count}}}\n    \
             - {{cellType: CPU-NODE, cellNumber: {count}}}\n"
        )
    };
    let all: String = vcs.iter().map(promise).collect();
    format!("# by hand\nvirtualClusters:\n{all}")
}

fn write(node: &Node, name: &str, text: &str) -> Result<String> {
    let path = node.home().join(name);
    std::fs::write(&path, text)?;
    Ok(path.to_string_lossy().into_owned())
}

fn vcs(node: &Node) -> Result<Vec<String>> {
    let shown = node.json(&["vc", "list"])?;
    let all = shown.as_array().context("no list")?;
    let names = all.iter().map(|vc| vc["name"].as_str().unwrap_or_default());
    Ok(names.map(str::to_owned).collect())
}

/// Waits until a node lists these, and no others: one that has just lost the leader says so.
fn lists(node: &Node, expect: &[&str]) -> Result<()> {
    let start = Instant::now();
    loop {
        let listed = vcs(node);
        if listed.as_ref().is_ok_and(|listed| listed == expect) {
            return Ok(());
        }
        ensure!(
            start.elapsed() < LIMIT,
            "{} lists {listed:?} in place of {expect:?}",
            node.name()
        );
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

fn stays<'a>(name: &'a str, extra: &'a str, instances: u32) -> Job<'a> {
    Job {
        gpu: 8,
        instances,
        extra,
        ..Job::new(name, STAYS)
    }
}

/// Three nodes that are shared: two for vision, on which its job `two` runs, one for speech. The type
/// of the machines.
async fn shared() -> Result<Option<(Site, String)>> {
    let Some(site) = Site::new(3).await? else {
        return Ok(None);
    };
    let kept = |view: &View| {
        let voters = view.0["jobs"]["voters"].as_array();
        voters.is_some_and(|voters| voters.len() == 3)
    };
    let all = Watch::new(&site.lan, 1..=3);
    all.each("all keep the jobs", LIMIT, kept).await?;
    let found = site.node(2).prints(&["vc", "export"])?;
    let line = found.lines().find(|line| line.contains(": V100-NODE-8"));
    let machine = line.and_then(|line| line.split(' ').next_back());
    let machine = machine.context(found.clone())?.to_owned();
    // What is printed to start from changes nothing.
    let as_found = write(site.node(2), "found.yaml", &found)?;
    let asked = ["vc", "apply", &as_found, "--what-if"];
    site.node(2).prints(&asked)?;
    let text = promises(&machine, &[("speech", 1), ("vision", 2)]);
    let file = write(site.node(2), "shared.yaml", &text)?;
    let made = site.node(2).prints(&["vc", "apply", &file])?;
    ensure!(made.trim() == "version 1", "{made}");
    // Whoever is asked next knows, at any node.
    submit(site.node(3), &stays("two", VISION, 2))?;
    waits(site.node(1), "two", &["RUNNING"])?;
    Ok(Some((site, machine)))
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_description_shares_machines_between_virtual_clusters() -> Result<()> {
    let Some((site, _)) = shared().await? else {
        return Ok(());
    };
    for node in site.lan.nodes() {
        ensure!(vcs(node)? == ["speech", "vision"], "{}", node.name());
    }
    let no = write(site.node(1), "no.yaml", &Job::new("no", "true").yaml())?;
    let refused = site.node(1).refused(&["job", "submit", &no], 4)?;
    ensure!(refused.contains("default"), "{refused}");
    // The third machine is promised to others, and idle.
    submit(site.node(1), &stays("more", VISION, 1))?;
    let job = Job {
        gpu: 8,
        extra: "defaults: {virtualCluster: speech}",
        ..Job::new("said", "true")
    };
    submit(site.node(1), &job)?;
    ends(site.node(3), "said")?;
    waits(site.node(2), "more", &["WAITING"])?;
    let share = |name: &str| -> Result<String> {
        let shown = site.node(1).json(&["vc", "show", name])?;
        Ok(format!(
            "{} of {}",
            shown["used"]["gpu"], shown["total"]["gpu"]
        ))
    };
    ensure!(share("vision")? == "16 of 16", "{}", share("vision")?);
    ensure!(share("speech")?.ends_with("of 8"), "{}", share("speech")?);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_nobody_changes_a_description_unseen_or_takes_unasked() -> Result<()> {
    let Some((site, machine)) = shared().await? else {
        return Ok(());
    };
    let node = site.node(1);
    let text = promises(&machine, &[("speech", 2), ("vision", 1)]);
    let file = write(node, "less.yaml", &text)?;
    let apply = ["vc", "apply", &file];
    let with = |more: &[&'static str]| [&apply[..], more].concat();
    node.refused(&with(&["--yes"]), 2)?;
    let conflict = node.refused(&with(&["--yes", "--base", "0"]), 4)?;
    ensure!(conflict.contains("version 1"), "{conflict}");
    let what = node.muster(&with(&["--what-if", "-o", "json"]))?;
    ensure!(what.status.code() == Some(1), "{what:?}");
    let what: Value = serde_json::from_slice(&what.stdout)?;
    ensure!(what["lose_quota"][0]["name"] == "two", "{what:#}");
    let harm = node.refused(&with(&["--base", "1"]), 2)?;
    ensure!(harm.contains("admin~two"), "{harm}");
    let wrong = write(node, "wrong.yaml", &text.replace("CPU-NODE", "TPU"))?;
    let wrong = node.refused(&["vc", "apply", &wrong, "--base", "1"], 4)?;
    ensure!(
        wrong.contains("virtualClusters.speech.virtualCells[1]"),
        "{wrong}"
    );
    // All that time nothing was changed; an admin who means it changes it, and takes it back.
    let text = site.node(3).prints(&["vc", "export"])?;
    ensure!(
        text.starts_with("# muster virtual-clusters version 1\n# by hand"),
        "{text}"
    );
    let made = node.prints(&with(&["--base", "1", "--yes"]))?;
    ensure!(made.trim() == "version 2", "{made}");
    let made = site.node(2).prints(&["vc", "rollback", "1"])?;
    ensure!(made.trim() == "version 3", "{made}");
    let history = site.node(3).json(&["vc", "history"])?;
    ensure!(
        history.as_array().is_some_and(|all| all.len() == 3),
        "{history:#}"
    );
    waits(node, "two", &["RUNNING"])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_new_leader_keeps_to_the_description() -> Result<()> {
    let Some((mut site, machine)) = shared().await? else {
        return Ok(());
    };
    // The founder led from the beginning.
    site.lan.node_mut(1).kill()?;
    lists(site.node(2), &["speech", "vision"])?;
    // What it had promised to `two` counts as used, also where its node has not reported.
    submit(site.node(2), &stays("late", VISION, 1))?;
    waits(site.node(3), "late", &["WAITING"])?;
    site.lan.node_mut(1).start()?;
    waits(site.node(1), "two", &["RUNNING"])?;
    let text = promises(&machine, &[("speech", 1), ("vision", 1)]);
    let file = write(site.node(1), "less.yaml", &text)?;
    let what = site.node(1).muster(&["vc", "apply", &file, "--what-if"])?;
    let said = String::from_utf8_lossy(&what.stdout);
    ensure!(said.contains("admin~two"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_founders_description_becomes_the_clusters() -> Result<()> {
    if muster_tests::net::missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(2)?;
    let text = "virtualClusters:
  speech: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
  vision: {virtualCells: [{cellType: CPU-NODE, cellNumber: 1}]}
";
    let file = write(lan.node(1), "cluster.yaml", text)?;
    lan.node(1)
        .configure(&format!("[cluster]\nfile = {file:?}\n"))?;
    lan.unite().await?;
    for node in lan.nodes() {
        lists(node, &["speech", "vision"])?;
    }
    let history = lan.node(2).json(&["vc", "history"])?;
    ensure!(history[0]["author"] == "muster cluster init", "{history:#}");
    ensure!(lan.node(2).prints(&["vc", "export"])?.ends_with(text));
    // The file counts no more: what is applied does, also after a restart.
    let less = "virtualClusters: {vision: {virtualCells: [{cellType: CPU-NODE, cellNumber: 2}]}}\n";
    let file = write(lan.node(2), "less.yaml", less)?;
    lan.node(2).prints(&["vc", "apply", &file, "--base", "1"])?;
    lan.node_mut(1).stop()?;
    lan.node_mut(1).start()?;
    for node in lan.nodes() {
        lists(node, &["vision"])?;
    }
    // Whoever leaves has what it had before.
    lan.node(2).prints(&["cluster", "leave"])?;
    lists(lan.node(2), &["default"])?;
    let alone = lan.node(2).refused(&["vc", "apply", &file, "--yes"], 4)?;
    ensure!(alone.contains("cluster init"), "{alone}");
    Ok(())
}
