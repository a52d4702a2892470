//! Asks nodes as users do, and writes down what they answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::{Method, Response, StatusCode};
use muster_model::view::{JobDetail, JobSummary};
use serde::de::DeserializeOwned;

use super::draft::JobDraft;
use super::history::{ClientAnswer, Deed, JobObservation, Moment, Operation};
use crate::client::Client;

/// How long a client waits for an answer. A node looks for a leader for half of that.
const PATIENCE: Duration = Duration::from_secs(16);
/// What a node says when it does not know whether something was done.
const NOT_KNOWN: &str = "it is not known whether";
/// Names the virtual clusters whose jobs are missing in a listing.
const AWAY: &str = "x-muster-away";
/// Says how old an answer is that is no leader's: what was done since is not in it.
const AGE: &str = "x-muster-age";
/// OpenPAI's code for a job that is not there.
const NO_JOB: &str = "NoJobError";

/// One client for each node, and what they were told.
#[derive(Debug)]
pub(super) struct Clients {
    nodes: Vec<Client>,
    start: Instant,
    operations: Mutex<Vec<Operation>>,
}

impl Clients {
    /// With a client that is logged in for every node, the first one's first.
    pub(super) fn new(nodes: Vec<Client>) -> Self {
        Self {
            nodes,
            start: Instant::now(),
            operations: Mutex::default(),
        }
    }

    /// Everything that was told so far.
    pub(super) fn operations(&self) -> Vec<Operation> {
        let operations = self.operations.lock();
        operations.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Submits a job at a node: whether it was accepted.
    pub(super) async fn submit(&self, node: usize, draft: &JobDraft) -> bool {
        let begun = self.now();
        let path = "/api/v2/jobs";
        let answer = self.ask(node, Method::POST, path, draft.yaml()).await;
        let (mark, answer) = (draft.mark, empty(answer));
        let accepted = answer.told().is_some();
        self.note(node, begun, Deed::Submit { mark, answer });
        accepted
    }

    /// Asks a node for a job's end: whether that was accepted.
    pub(super) async fn stop(&self, node: usize, job: &str) -> bool {
        let begun = self.now();
        let path = format!("/api/v2/jobs/admin~{job}/executionType");
        let body = r#"{"value": "STOP"}"#.to_owned();
        let answer = empty(self.ask(node, Method::PUT, &path, body).await);
        let accepted = answer.told().is_some();
        let job = job.to_owned();
        self.note(node, begun, Deed::Stop { job, answer });
        accepted
    }

    /// Looks at a job.
    pub(super) async fn look(&self, node: usize, job: &str) {
        let begun = self.now();
        let answer = match self.get::<JobDetail>(node, &of(job)).await {
            ClientAnswer::Told(detail) => ClientAnswer::Told(Some(sighting(&detail.summary))),
            ClientAnswer::Refused { why, .. } if why.contains(NO_JOB) => ClientAnswer::Told(None),
            ClientAnswer::Refused { status, why } => ClientAnswer::Refused { status, why },
            ClientAnswer::Unknown(why) => ClientAnswer::Unknown(why),
        };
        let job = job.to_owned();
        self.note(node, begun, Deed::Look { job, answer });
    }

    /// Lists all jobs: what was told, if anything was.
    pub(super) async fn list(&self, node: usize) -> Option<BTreeMap<String, JobObservation>> {
        let begun = self.now();
        let path = "/api/muster/v1/jobs?limit=50000";
        let answer = match self.get::<Vec<JobSummary>>(node, path).await {
            ClientAnswer::Told(rows) => {
                let rows = rows
                    .iter()
                    .map(|job| (job.key.name.to_string(), sighting(job)));
                ClientAnswer::Told(rows.collect())
            }
            ClientAnswer::Refused { status, why } => ClientAnswer::Refused { status, why },
            ClientAnswer::Unknown(why) => ClientAnswer::Unknown(why),
        };
        let told = answer.told().cloned();
        self.note(node, begun, Deed::List { answer });
        told
    }

    /// Gets JSON from a node. This is written down nowhere.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        node: usize,
        path: &str,
    ) -> ClientAnswer<T> {
        let answer = self.ask(node, Method::GET, path, String::new()).await;
        match answer {
            ClientAnswer::Told(text) => match serde_json::from_str(&text) {
                Ok(value) => ClientAnswer::Told(value),
                Err(error) => ClientAnswer::Unknown(format!("{path} gave {text}: {error}")),
            },
            ClientAnswer::Refused { status, why } => ClientAnswer::Refused { status, why },
            ClientAnswer::Unknown(why) => ClientAnswer::Unknown(why),
        }
    }

    /// Asks a node for anything. This is written down nowhere.
    pub(super) async fn ask(
        &self,
        node: usize,
        method: Method,
        path: &str,
        body: String,
    ) -> ClientAnswer<String> {
        let kind = if path.ends_with("executionType") {
            "application/json"
        } else {
            "text/yaml"
        };
        let sent = self.nodes[node - 1].respond(method, path, kind, body);
        match tokio::time::timeout(PATIENCE, sent).await {
            Err(_) => ClientAnswer::Unknown("no answer in time".to_owned()),
            Ok(Err(error)) => ClientAnswer::Unknown(format!("{error:#}")),
            Ok(Ok(answer)) => judged(answer),
        }
    }

    fn now(&self) -> Moment {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn note(&self, node: usize, begun: Moment, deed: Deed) {
        let ended = self.now();
        let operation = Operation {
            begun,
            ended,
            node,
            deed,
        };
        let operations = self.operations.lock();
        let mut operations = operations.unwrap_or_else(PoisonError::into_inner);
        operations.push(operation);
    }
}

/// Where Muster's own routes have a job.
pub(super) fn of(job: &str) -> String {
    format!("/api/muster/v1/jobs/admin~{job}")
}

/// Whether a failure leaves open if anything was done: only what says that it was not is taken
/// for a refusal.
fn is_vague(status: StatusCode, text: &str) -> bool {
    let refuses = status.is_client_error() || status == StatusCode::SERVICE_UNAVAILABLE;
    !refuses || text.contains(NOT_KNOWN)
}

fn judged(answer: Response<String>) -> ClientAnswer<String> {
    let (head, text) = answer.into_parts();
    let status = head.status;
    // A listing that says it is not whole, or old, tells nothing of what it lacks.
    let is_whole = [AWAY, AGE]
        .iter()
        .all(|name| !head.headers.contains_key(*name));
    if status.is_success() && is_whole {
        ClientAnswer::Told(text)
    } else if is_vague(status, &text) && is_whole {
        ClientAnswer::Unknown(text)
    } else {
        let status = status.as_u16();
        ClientAnswer::Refused { status, why: text }
    }
}

fn empty(answer: ClientAnswer<String>) -> ClientAnswer<()> {
    match answer {
        ClientAnswer::Told(_) => ClientAnswer::Told(()),
        ClientAnswer::Refused { status, why } => ClientAnswer::Refused { status, why },
        ClientAnswer::Unknown(why) => ClientAnswer::Unknown(why),
    }
}

fn sighting(job: &JobSummary) -> JobObservation {
    JobObservation {
        state: job.state(),
        attempt: job.retries.total,
        submitted_ms: job.submitted,
    }
}
