//! What is found when all is over: lists, records, and what tasks said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hyper::Method;
use muster_control::vc::ATTEMPTS_KEPT;
use muster_model::view::{JobDetail, TaskView};

use super::clients::{Clients, of};
use super::draft::MARK;
use super::history::{ClientAnswer, FinalState, FoundRecord, Mark, Member};
use crate::net::Lan;

/// How often something is asked for until it is given up.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);

/// Asks every node for its list, and one or the other for each record.
pub(super) async fn ending(lan: &Lan, clients: &Clients) -> FinalState {
    let mut ending = FinalState::default();
    for node in 1..=lan.nodes().len() {
        match insist(async |_| clients.list(node).await).await {
            Some(list) => drop(ending.lists.insert(node, list)),
            None => ending.trouble.push(format!("n{node} gives no list")),
        }
    }
    let names = ending.lists.values().flat_map(BTreeMap::keys).cloned();
    for (first, name) in names.collect::<BTreeSet<String>>().into_iter().enumerate() {
        let search = JobSearch {
            lan,
            clients,
            name: &name,
            first,
        };
        match search.record().await {
            Some(record) => drop(ending.records.insert(name, record)),
            None => {
                let trouble = format!("{name} is listed and cannot be shown");
                ending.trouble.push(trouble);
            }
        }
    }
    ending
}

/// A job whose record is looked for.
struct JobSearch<'a> {
    lan: &'a Lan,
    clients: &'a Clients,
    name: &'a str,
    /// Says which node is asked first, so that all are asked for some.
    first: usize,
}

impl JobSearch<'_> {
    async fn record(&self) -> Option<FoundRecord> {
        let config = self.config().await?;
        let last = self.detail(None).await?;
        let mut attempts = BTreeMap::new();
        if let Some(id) = last.attempt.as_ref().map(|attempt| attempt.id) {
            // Older ones may be kept no longer.
            let kept = u32::try_from(ATTEMPTS_KEPT).unwrap_or(u32::MAX);
            for attempt in id.saturating_sub(kept)..id {
                let detail = self.detail(Some(attempt)).await?;
                attempts.insert(attempt, members(self.lan, &detail));
            }
            attempts.insert(id, members(self.lan, &last));
        }
        Some(FoundRecord {
            mark: mark(&config),
            state: last.summary.state(),
            code: last.summary.exit_code,
            attempts,
        })
    }

    /// The job as it was submitted.
    async fn config(&self) -> Option<String> {
        let path = format!("/api/v2/jobs/admin~{}/config", self.name);
        let ask = async |again| {
            let (node, none) = (self.node(again), String::new());
            told(self.clients.ask(node, Method::GET, &path, none).await)
        };
        insist(ask).await
    }

    /// The job at an attempt, the latest if none is named.
    async fn detail(&self, attempt: Option<u32>) -> Option<JobDetail> {
        let query = attempt.map_or_else(String::new, |attempt| format!("?attempt={attempt}"));
        let path = of(self.name) + &query;
        insist(async |again| told(self.clients.get(self.node(again), &path).await)).await
    }

    /// Whom to ask in a try.
    fn node(&self, again: usize) -> usize {
        1 + (self.first + again) % self.lan.nodes().len()
    }
}

/// The mark in a job's commands.
fn mark(config: &str) -> Option<Mark> {
    let (_, rest) = config.split_once(MARK)?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    Some(Mark(rest[..end].parse().ok()?))
}

fn members(lan: &Lan, detail: &JobDetail) -> Vec<Member> {
    let tasks = detail.roles.iter().flat_map(|role| &role.tasks);
    tasks.filter_map(|task| member(lan, task)).collect()
}

/// The newest attempt of a task.
fn member(lan: &Lan, task: &TaskView) -> Option<Member> {
    let attempt = task.attempts.last()?;
    let named = attempt.node.as_ref().map(ToString::to_string);
    let node = lan.nodes().iter().find(|node| Some(node.name()) == named);
    let made = node.zip(attempt.uid.as_ref()).is_some_and(|(node, uid)| {
        let tasks = node.home().join("state/tasks");
        tasks.join(uid.to_string()).exists()
    });
    let verdict = attempt.verdict.as_ref();
    Some(Member {
        index: task.id.index,
        node: node.map(|node| node.number()),
        devices: attempt.devices.clone(),
        made,
        ended: verdict.is_some(),
        code: verdict.and_then(|verdict| verdict.origin_exit_code),
        why: verdict.map_or_else(String::new, |verdict| verdict.diagnostics.clone()),
    })
}

fn told<T>(answer: ClientAnswer<T>) -> Option<T> {
    match answer {
        ClientAnswer::Told(told) => Some(told),
        ClientAnswer::Refused { .. } | ClientAnswer::Unknown(_) => None,
    }
}

/// Asks again and again, with the number of the try.
async fn insist<T>(ask: impl AsyncFn(usize) -> Option<T>) -> Option<T> {
    for again in 0..TRIES {
        if let Some(told) = ask(again).await {
            return Some(told);
        }
        tokio::time::sleep(PAUSE).await;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_in_commands() {
        assert_eq!(mark("commands:\n- |\n  mark=17\n  tell"), Some(Mark(17)));
        assert_eq!(mark("commands: [true]"), None);
    }
}
