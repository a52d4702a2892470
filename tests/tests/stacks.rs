//! What the tasks of a job do at this moment, through the whole product.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::home;
use muster_tests::net::BareNode;
use muster_tests::site::Site;
use serde_json::Value;

use crate::gangs::{submit, waits};
use crate::stage::{Job, LIMIT, Stage};

/// Two wait in one place, the third in another one.
const ONE_ELSEWHERE: &str = "\
echo begun
mkfifo /tmp/never
if [ $PAI_TASK_INDEX = 2 ]; then cat /tmp/never; else sleep 600; fi";

/// Whom the stacks name as odd.
fn odd(stacks: &Value) -> Vec<String> {
    let groups = stacks["groups"].as_array().into_iter().flatten();
    let odd = groups.filter(|group| group["is_odd"] == true);
    let members = odd.flat_map(|group| group["members"].as_array().into_iter().flatten());
    let named = members.map(|member| {
        let task = &member["task"];
        format!(
            "{}:{}",
            task["role"].as_str().unwrap_or_default(),
            task["index"]
        )
    });
    named.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_the_odd_task_of_a_gang_is_named() -> Result<()> {
    if home::missing().is_some() {
        return Ok(());
    }
    let stage = Stage::new().await?;
    let gang = Job {
        instances: 3,
        ..Job::new("gang", ONE_ELSEWHERE)
    };
    stage.runs(&gang).await?;
    let begun = Instant::now();
    // The commands run, and may not have come to their places yet.
    let stacks = loop {
        let said = stage
            .home
            .muster(&["job", "stacks", "gang", "-o", "json"])?;
        let error = String::from_utf8_lossy(&said.stderr).into_owned();
        let stacks: Value = serde_json::from_slice(&said.stdout).context(error)?;
        if odd(&stacks) == ["main:2"] {
            break stacks;
        }
        ensure!(begun.elapsed() < LIMIT, "{stacks:#}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let summary = stacks["summary"][0].as_str().unwrap_or_default();
    ensure!(
        summary.starts_with("2 of 3 tasks run sleep, which waits in"),
        "{summary}"
    );
    ensure!(summary.contains("; main:2 runs "), "{summary}");
    for task in stacks["tasks"].as_array().context("tasks")? {
        // It wrote a line when it began.
        ensure!(
            task["silent_s"].as_u64().is_some_and(|it| it < 60),
            "{task:#}"
        );
        let processes = task["processes"].as_array().context("processes")?;
        ensure!(
            processes.iter().any(|it| it["pid"] == 1),
            "muster-init: {task:#}"
        );
        ensure!(
            processes.iter().all(|it| it["problem"].is_null()),
            "{task:#}"
        );
    }

    let text = stage
        .home
        .muster(&["job", "stacks", "gang", "--task", "2", "--all-threads"])?;
    let text = String::from_utf8(text.stdout)?;
    ensure!(text.contains("main:2 on n1: process 1 init"), "{text}");
    ensure!(
        text.contains("there is no other to compare it with"),
        "{text}"
    );

    let refused = |arguments: &[&str]| -> Result<String> {
        let said = stage
            .home
            .muster(&[&["job", "stacks"], arguments].concat())?;
        ensure!(!said.status.success(), "{said:?}");
        Ok(String::from_utf8(said.stderr)?)
    };
    let error = refused(&["gang", "--role", "chief"])?;
    ensure!(error.contains("no task role chief; it has main"), "{error}");
    let error = refused(&["gang", "--task", "3"])?;
    ensure!(error.contains("no task with index 3"), "{error}");
    stage.home.muster(&["job", "stop", "gang", "--wait"])?;
    let error = refused(&["gang"])?;
    ensure!(error.contains("is STOPPED: only a running job"), "{error}");
    Ok(())
}

/// The stacks of the gang by a node, once they are as expected.
fn taken(node: &BareNode, is_there: impl Fn(&Value) -> bool) -> Result<Value> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < LIMIT {
        match node.json(&["job", "stacks", "gang"]) {
            Ok(stacks) if is_there(&stacks) => return Ok(stacks),
            Ok(stacks) => last = format!("{stacks:#}"),
            Err(error) => last = error.to_string(),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    anyhow::bail!("{last}")
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_all_nodes_of_a_gang_are_asked_and_a_silent_one_is_named() -> Result<()> {
    let Some(mut site) = Site::new(3).await? else {
        return Ok(());
    };
    // Eight simulated GPUs a node: each task takes one whole.
    let gang = Job {
        gpu: 8,
        instances: 3,
        ..Job::new("gang", ONE_ELSEWHERE)
    };
    submit(site.node(1), &gang)?;
    waits(site.node(1), "gang", &["RUNNING"])?;
    let stacks = taken(site.node(2), |stacks| odd(stacks) == ["main:2"])?;
    let nodes = stacks["tasks"].as_array().context("tasks")?.iter();
    let nodes: std::collections::BTreeSet<_> = nodes.map(|it| it["node"].to_string()).collect();
    ensure!(
        nodes.len() == 3 && stacks["unheard"] == Value::Array(Vec::new()),
        "{stacks:#}"
    );

    site.lan.node_mut(3).kill()?;
    let is_named = |stacks: &Value| stacks["unheard"][0]["node"] == "n3";
    let stacks = taken(site.node(2), is_named)?;
    ensure!(
        stacks["tasks"].as_array().context("tasks")?.len() == 2,
        "{stacks:#}"
    );
    let last = stacks["summary"]
        .as_array()
        .and_then(|all| all.last())
        .context("summary")?;
    let last = last.as_str().unwrap_or_default();
    ensure!(last.starts_with("Node n3 says nothing: "), "{last}");
    ensure!(last.contains("; there runs main:"), "{last}");
    Ok(())
}
