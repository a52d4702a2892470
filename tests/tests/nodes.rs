//! The nodes of a cluster as any of them lists them.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use hyper::{Method, StatusCode};
use muster_tests::client::Client;
use muster_tests::net::{BareNode, Lan, View, Watch};
use serde_json::{Value, json};

use crate::gangs::{LIMIT, Site, submit, waits};
use crate::stage::Job;

const PATH: &str = "/api/v2/virtual-clusters?nodes";

/// What a node answers to those who ask which nodes there are.
async fn listed(client: &Client) -> Result<(StatusCode, Value)> {
    let (status, text) = client.send(Method::GET, PATH, "", String::new()).await?;
    let answer = serde_json::from_str(&text).with_context(|| text)?;
    Ok((status, answer))
}

/// Waits until what a node lists is as it should be.
async fn lists(node: &BareNode, token: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    let client = node.visitor().with_token(token);
    let start = Instant::now();
    loop {
        let listed = listed(&client).await;
        if listed.as_ref().is_ok_and(|(_, answer)| is_so(answer)) {
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "{} lists {listed:#?}", node.name());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

/// A token that all members take.
async fn token(lan: &Lan) -> Result<String> {
    Ok(lan.node(1).client().await?.token().to_owned())
}

/// Whether these are three nodes of eight devices, and what is wrong with each begins so.
fn has_all(answer: &Value, problems: [&str; 3]) -> bool {
    let is_listed = |(node, problem): (&str, &str)| {
        let told = answer[node]["problem"].as_str();
        answer[node]["gpuTotal"] == 8 && told.is_some_and(|told| told.starts_with(problem))
    };
    let nodes = ["n1", "n2", "n3"].into_iter().zip(problems);
    answer.as_object().is_some_and(|all| all.len() == 3) && nodes.into_iter().all(is_listed)
}

/// Eight devices, of which so many are in use.
fn gpus(used: u32) -> Value {
    json!({"gpuUsed": used, "gpuAvailable": 8 - used, "gpuTotal": 8})
}

/// One that does not lead the virtual cluster.
async fn follower(lan: &Lan) -> Result<usize> {
    let views = Watch::new(lan, [1]).views().await?;
    let leader = &views.first().context("no view")?.0["vcs"]["default"]["leader"];
    let is_other = |number: &usize| lan.node(*number).name() != *leader;
    (1..=lan.nodes().len()).find(is_other).context("all lead")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_lists_all_nodes_and_says_what_is_wrong_with_them() -> Result<()> {
    if muster_tests::net::missing().is_some() {
        return Ok(());
    }
    let mut lan = Lan::new(3)?;
    lan.unite().await?;
    let kept = |view: &View| view.voters(Some("default")).len() == 3;
    let all = Watch::new(&lan, 1..=3);
    all.each("all keep the jobs", LIMIT, kept).await?;
    let token = token(&lan).await?;
    for node in lan.nodes() {
        let closed = ["it has not seen yet which containers"; 3];
        lists(node, &token, |answer| has_all(answer, closed)).await?;
        let own = node.json(&["node", "list"])?;
        let models = |node: &Value| node["has"]["devices"][7]["model"].to_string();
        let all = own.as_array().context("no list")?;
        ensure!(all.len() == 3, "{own:#}");
        ensure!(
            all.iter().all(|node| models(node).contains("V100")),
            "{own:#}"
        );
    }
    // No containerd answers them, and that is why they get no tasks. One that is lost stays in the list.
    lan.node_mut(3).kill()?;
    for number in [1, 2] {
        let problems = ["it has", "it has", "it cannot be reached"];
        lists(lan.node(number), &token, |answer| has_all(answer, problems)).await?;
    }
    // Where no leader can be asked nothing is listed, and what to do is told.
    lan.node_mut(2).kill()?;
    let client = lan.node(1).visitor().with_token(&token);
    let start = Instant::now();
    let (status, answer) = loop {
        let (status, answer) = listed(&client).await?;
        if status != StatusCode::OK || start.elapsed() > LIMIT {
            break (status, answer);
        }
    };
    let why = answer["message"].as_str().unwrap_or_default();
    ensure!(
        status == StatusCode::SERVICE_UNAVAILABLE,
        "{status}: {answer:#}"
    );
    ensure!(why.contains("muster cluster status"), "{answer:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_a_node_that_does_not_lead_lists_what_a_job_holds_on_another() -> Result<()> {
    let Some(site) = Site::new(3).await? else {
        return Ok(());
    };
    let asked = follower(&site.lan).await?;
    let token = token(&site.lan).await?;
    // One task takes all devices of one node, the other one half of another's.
    for (name, gpu) in [("whole", 8), ("half", 4)] {
        let job = Job {
            gpu,
            ..Job::new(name, "while true; do sleep 0.2; done")
        };
        submit(site.node(asked), &job)?;
    }
    let mut expect = json!({"n1": gpus(0), "n2": gpus(0), "n3": gpus(0)});
    for (name, gpu) in [("whole", 8), ("half", 4)] {
        let detail = waits(site.node(asked), name, &["RUNNING"])?;
        let address = &detail["roles"][0]["tasks"][0]["attempts"][0]["address"];
        let mut nodes = site.lan.nodes().iter();
        let on = nodes.find(|node| *address == node.address().to_string());
        expect[on.with_context(|| detail.to_string())?.name()] = gpus(gpu);
    }
    for node in site.lan.nodes() {
        lists(node, &token, |answer| *answer == expect).await?;
    }
    site.node(asked).prints(&["job", "stop", "whole"])?;
    for node in site.lan.nodes() {
        let mut less = expect.clone();
        for (_, gpus) in less.as_object_mut().into_iter().flatten() {
            if gpus["gpuUsed"] == 8 {
                *gpus = self::gpus(0);
            }
        }
        lists(node, &token, |answer| *answer == less).await?;
    }
    Ok(())
}
