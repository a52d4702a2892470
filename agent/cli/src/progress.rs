//! What a job waits for, in one line on stderr while somebody waits for the job.
//!
//! Only on a terminal: nothing is asked for it otherwise.

use std::io::{IsTerminal as _, stderr};
use std::sync::Arc;
use std::time::Duration;

use muster_model::explanation::{Explanation, Launch};
use muster_model::id::JobKey;
use muster_model::view::JobSummary;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::api::Api;
use super::console::printable;
use super::pull;
use super::spinner::Spinner;

/// Between two questions how far the job is, at first and at last.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LAST: Duration = Duration::from_secs(10);

/// The line. It is gone when this is dropped.
#[derive(Debug)]
pub(super) struct ProgressLine {
    spinner: Arc<Spinner>,
    watcher: Option<JoinHandle<()>>,
}

impl ProgressLine {
    /// Shows a line about a job until the job has news of its own.
    pub(super) fn new(api: &Api, key: &JobKey) -> Self {
        Self::on(stderr().is_terminal(), api, key)
    }

    fn on(is_terminal: bool, api: &Api, key: &JobKey) -> Self {
        let spinner = Arc::new(Spinner::new(format!("{key}: waiting")));
        let watcher = is_terminal
            .then(|| tokio::spawn(watch(api.clone(), key.clone(), Arc::clone(&spinner))));
        Self { spinner, watcher }
    }

    /// How the job stands.
    pub(super) fn tell(&self, summary: &JobSummary) {
        self.spinner.message(standing(summary));
    }

    /// Takes the line away while something else is written.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        self.spinner.suspend(write);
    }

    /// Takes the line away for good, before output of another kind.
    pub(super) fn clear(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            watcher.abort();
        }
        self.spinner.clear();
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Asks now and then. A failed answer is not reported here: the command that waits for the job reports it.
async fn watch(api: Api, key: JobKey, spinner: Arc<Spinner>) {
    let mut pause = PAUSE_FIRST;
    loop {
        sleep(pause).await;
        if let Ok(explanation) = api.explanation(&key).await {
            spinner.message(words(&explanation));
        }
        pause = (pause * 5 / 4).min(PAUSE_LAST);
    }
}

/// `ada~train: WAITING, needs 8 GPUs`.
fn standing(summary: &JobSummary) -> String {
    let reason = summary.waiting_for.as_deref();
    one_line(&format!("{}: {}", summary.key, summary.state()), reason)
}

/// The same with how far the machines are that start it.
fn words(explanation: &Explanation) -> String {
    let head = format!("{}: {}", explanation.key, explanation.state);
    let reason = explanation.reason.clone();
    one_line(
        &head,
        reason
            .or_else(|| starting(&explanation.launches))
            .as_deref(),
    )
}

fn one_line(head: &str, rest: Option<&str>) -> String {
    let text = match rest {
        Some(rest) => format!("{head}, {rest}"),
        None => head.to_owned(),
    };
    printable(&text).replace('\n', " ")
}

/// What the machines still do; nothing if there are none.
fn starting(launches: &[Launch]) -> Option<String> {
    let missing = launches.iter().find(|launch| !launch.is_ready)?;
    let ready = launches.iter().filter(|launch| launch.is_ready).count();
    let doing = match missing.pulls.first() {
        Some(pull) => format!("gets {}: {}", pull.image, pull::progress(pull)),
        None => "starts its tasks".to_owned(),
    };
    let node = &missing.node;
    Some(match launches.len() {
        1 => format!("{node} {doing}"),
        all => format!("{ready} of {all} machines are ready; {node} {doing}"),
    })
}

#[cfg(test)]
mod tests {
    use muster_model::pull::Pull;
    use muster_model::state::JobState;

    use super::*;
    use crate::endpoint::EndpointArguments;
    use crate::stub::{AgentStub, StubAnswer};

    fn launch(node: &str, is_ready: bool, pulls: Vec<Pull>) -> Launch {
        Launch {
            node: node.parse().unwrap(),
            is_ready,
            images: std::collections::BTreeSet::new(),
            pulls,
            is_heard: true,
        }
    }

    fn explanation(reason: Option<&str>, launches: Vec<Launch>) -> Explanation {
        Explanation {
            key: "ada~j".parse().unwrap(),
            state: JobState::Waiting,
            reason: reason.map(str::to_owned),
            gangs: Vec::new(),
            waiting: 1,
            ahead: None,
            last_end: None,
            gpus_idle: 0,
            launches,
        }
    }

    #[test]
    fn what_is_waited_for_is_said_in_one_line() {
        let pull = Pull {
            image: "big:1".to_owned(),
            bytes: 1 << 20,
            bytes_total: Some(4 << 20),
            layers: 0,
            layers_total: 0,
            for_ms: 2_000,
        };
        let pulling = launch("n2", false, vec![pull]);
        for (explanation, expect) in [
            (explanation(None, vec![]), "ada~j: WAITING"),
            (
                explanation(Some("needs 4\nGPUs"), vec![]),
                "ada~j: WAITING, needs 4 GPUs",
            ),
            (
                explanation(None, vec![pulling.clone()]),
                "ada~j: WAITING, n2 gets big:1: 1.00 MiB of 4.00 MiB have arrived, for 2s so far",
            ),
            (
                explanation(
                    None,
                    vec![launch("n1", true, vec![]), launch("n3", false, vec![])],
                ),
                "ada~j: WAITING, 1 of 2 machines are ready; n3 starts its tasks",
            ),
            (
                explanation(None, vec![launch("n1", true, vec![])]),
                "ada~j: WAITING",
            ),
        ] {
            assert_eq!(words(&explanation), expect);
        }
    }

    #[tokio::test]
    async fn only_a_terminal_is_asked_for() {
        let stub = AgentStub::start();
        let line = "GET /api/muster/v1/jobs/ada~j/explanation";
        stub.answer(
            line,
            [StubAnswer::json(explanation(Some("needs more"), vec![]))],
        );
        let api = Api::new(&EndpointArguments::at_socket(stub.socket()), None).unwrap();
        let key: JobKey = "ada~j".parse().unwrap();
        drop(ProgressLine::on(false, &api, &key));
        let quiet = ProgressLine::on(false, &api, &key);
        let told = ProgressLine::on(true, &api, &key);
        while told.spinner.shown() != "ada~j: WAITING, needs more" {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(quiet.spinner.shown(), "ada~j: waiting");
        assert_eq!(stub.asked().len(), 1);
    }
}
