//! What is waited for when everything is healed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::Value;

use super::clients::{Clients, of};
use super::draft::JobDraft;
use super::history::{ClientAnswer, ClientHistory, JobObservation, Mark};
use crate::net::{Lan, Watch};

/// How long the nodes may take until they know the same again, and until they take a stop.
const AGREEMENT: Duration = Duration::from_secs(90);
/// How long it may be that no job ends while some have not: a queue may be long, but it moves.
const STILL: Duration = Duration::from_secs(180);
/// How long a node may hold something after that.
const RELEASE: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// So many jobs are named that have not ended.
const NAMED: usize = 10;

/// Waits until all nodes agree, every job has ended and nothing is held for any, and gives what
/// did not come about.
pub(super) async fn settle(
    lan: &Lan,
    clients: &Clients,
    drafts: &BTreeMap<Mark, JobDraft>,
) -> Vec<String> {
    let nodes = lan.nodes().len();
    let agreed = Watch::new(lan, 1..=nodes).agree(nodes, AGREEMENT).await;
    let mut trouble: Vec<String> = agreed.err().iter().map(|it| format!("{it:#}")).collect();
    trouble.extend(stop_the_endless(nodes, clients, drafts).await);
    trouble.extend(wait_for_all(nodes, clients).await);
    let releases = (1..=nodes).map(|node| wait_for_release(node, clients));
    trouble.extend(join_all(releases).await.into_iter().flatten());
    trouble
}

/// Stops what would not end by itself and was not stopped yet.
async fn stop_the_endless(
    nodes: usize,
    clients: &Clients,
    drafts: &BTreeMap<Mark, JobDraft>,
) -> Option<String> {
    let start = Instant::now();
    let history = ClientHistory {
        operations: clients.operations(),
        ..ClientHistory::default()
    };
    let endless = drafts.values().filter(|draft| draft.is_endless());
    let names = endless.map(|draft| draft.name.as_str());
    let mut left: Vec<&str> = names.filter(|name| !history.was_stopped(name)).collect();
    let mut asked = 0;
    while !left.is_empty() && start.elapsed() < AGREEMENT {
        asked += 1;
        let node = 1 + asked % nodes;
        if let Some(listed) = clients.list(node).await {
            left = stop(clients, node, left, &listed).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    (!left.is_empty()).then(|| format!("these cannot be stopped: {left:?}"))
}

/// Stops those of these jobs that have not ended, and gives those of which that was not accepted.
async fn stop<'n>(
    clients: &Clients,
    node: usize,
    names: Vec<&'n str>,
    listed: &BTreeMap<String, JobObservation>,
) -> Vec<&'n str> {
    let mut left = Vec::new();
    for name in names {
        let goes_on = listed.get(name).is_some_and(|seen| !seen.state.is_final());
        if goes_on && !clients.stop(node, name).await {
            left.push(name);
        }
    }
    left
}

/// Waits until every job has ended, as long as they go on to end.
async fn wait_for_all(nodes: usize, clients: &Clients) -> Option<String> {
    let mut moved = Instant::now();
    let mut last: Option<Vec<String>> = None;
    let mut fewest = usize::MAX;
    let mut asked = 0;
    while moved.elapsed() < STILL {
        asked += 1;
        if let Some(list) = clients.list(1 + asked % nodes).await {
            let left = list.iter().filter(|(_, seen)| !seen.state.is_final());
            let left: Vec<String> = left.map(|(name, _)| name.clone()).collect();
            if left.is_empty() {
                return None;
            }
            if left.len() < fewest {
                fewest = left.len();
                moved = Instant::now();
            }
            last = Some(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
    let Some(left) = last else {
        return Some("no node lists the jobs".to_owned());
    };
    let named = left.iter().take(NAMED);
    let named = join_all(named.map(|name| reason(clients, name))).await;
    let (count, named) = (left.len(), named.join("; "));
    Some(format!(
        "{count} jobs have not ended, and nothing has moved for {STILL:?}: {named}"
    ))
}

/// Why a job waits, as a node says it.
async fn reason(clients: &Clients, name: &str) -> String {
    let path = format!("{}/explanation", of(name));
    let told: ClientAnswer<Value> = clients.get(1, &path).await;
    match told {
        ClientAnswer::Told(why) => format!("{name} {}", why["reason"]),
        answer => format!("{name} {answer:?}"),
    }
}

/// Waits until a node's ledger holds nothing for any task.
async fn wait_for_release(node: usize, clients: &Clients) -> Option<String> {
    let start = Instant::now();
    loop {
        let shown: ClientAnswer<Value> = clients.get(node, "/api/muster/v1/node").await;
        let tasks = shown.told().map(|shown| &shown["tasks"]);
        if tasks.and_then(Value::as_array).is_some_and(Vec::is_empty) {
            return None;
        }
        if start.elapsed() > RELEASE {
            let held = tasks.map_or_else(|| format!("{shown:?}"), Value::to_string);
            return Some(format!("n{node} still holds something for {held}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
