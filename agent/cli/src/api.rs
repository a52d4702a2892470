//! The agent's routes that the command line uses, one function each.

mod events;
mod listing;
mod mesh;
mod people;
mod sessions;
mod storages;
mod tokens;

use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RANGE};
use http::{Method, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use muster_model::explanation::Explanation;
use muster_model::forecast::JobForecast;
use muster_model::id::{JobKey, TaskId, UserName};
use muster_model::image::ImageView;
use muster_model::known_node::KnownNode;
use muster_model::node::NodeView;
use muster_model::remark::Remark;
use muster_model::stacks::{JobStacks, StacksFilter};
use muster_model::task_use::TaskUse;
use muster_model::vc::VcView;
use muster_model::view::{Dated, JobDetail};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use super::client::{self, ANSWER_TIMEOUT, AgentClient, RequestBody, broken, understood};
use super::endpoint::{AgentEndpoint, EndpointArguments};
use super::error::CliError;
pub(super) use events::ListedEvent;
#[cfg(test)]
pub(super) use listing::PAGE;
pub(super) use listing::{Filter, JobListing, ListedJob};
pub(super) use people::{GroupEntry, GroupMemberEntry, GroupsStep, UserEntry};
pub(super) use storages::FileUpload;
pub(super) use tokens::{
    BegunDeviceLogin, CreatedUserToken, DeviceLoginAnswer, DeviceLoginWait, ListedUserToken,
};

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
/// Names the byte of a log that an answer begins at.
const LOG_START: &str = "x-muster-start";
/// A shorter wait is no request: the agent's own look at a job is no finer.
const WAIT_LEAST: Duration = Duration::from_secs(1);
/// Who the socket's requests come from when no user is named.
const ADMIN: &str = "admin";

/// One log file of one task attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogSource {
    pub(super) task: TaskId,
    /// The job's attempt.
    pub(super) attempt: u32,
    /// The task's attempt within that.
    pub(super) task_attempt: u32,
    /// The file: `all`, `stdout`, `stderr`, `runtime.log`.
    pub(super) name: String,
}

/// Which bytes of a log file to read, and whether to wait for more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogSelection {
    pub(super) start: LogStart,
    pub(super) follow: bool,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogStart {
    /// At the beginning.
    Beginning,
    /// So many bytes before the end.
    Tail(u64),
    /// At this byte of the log, where an earlier read broke off.
    Byte(u64),
}

/// A log file being read.
#[derive(Debug)]
pub(super) struct OpenLog {
    /// The byte of the log that the body begins at, if the agent told.
    pub(super) start: Option<u64>,
    body: Incoming,
}

impl OpenLog {
    /// The next bytes; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, CliError> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| broken("reading a log", error))?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Bytes that are not kept any more between where reading was to begin and where it does.
    pub(super) fn missing(&self, wanted: LogStart) -> u64 {
        let wanted = match wanted {
            LogStart::Beginning => 0,
            LogStart::Byte(byte) => byte,
            LogStart::Tail(_) => return 0,
        };
        self.start.unwrap_or(0).saturating_sub(wanted)
    }
}

/// A submitted job.
#[derive(Debug)]
pub(super) struct Accepted {
    /// Its name as the agent has it.
    pub(super) key: JobKey,
    /// What of it is not carried out.
    pub(super) warnings: Vec<Remark>,
}

/// An agent's routes.
#[derive(Clone, Debug)]
pub(super) struct Api {
    client: AgentClient,
}

impl Api {
    /// The agent that `connection` names, spoken to as `user`.
    pub(super) fn new(
        connection: &EndpointArguments,
        user: Option<UserName>,
    ) -> Result<Self, CliError> {
        Ok(Self::at(connection.endpoint()?, user))
    }

    /// The agent at this place.
    pub(super) const fn at(endpoint: AgentEndpoint, user: Option<UserName>) -> Self {
        Self {
            client: AgentClient::new(endpoint, user),
        }
    }

    /// Whose job a bare name means.
    pub(super) fn user(&self) -> Result<UserName, CliError> {
        match self.client.default_user() {
            Some(user) => Ok(user),
            None => ADMIN
                .parse()
                .map_err(|error| CliError::Usage(format!("{error}"))),
        }
    }

    /// The user of the token that requests carry; `None` on root's socket.
    pub(super) fn token_user(&self) -> Option<UserName> {
        self.client.default_user()
    }

    /// Submits a job.
    pub(super) async fn submit(&self, yaml: String) -> Result<Accepted, CliError> {
        let what = "cannot submit the job";
        let answer = self
            .client
            .send_yaml(what, Method::POST, "/api/v2/jobs", yaml);
        Accepted::read(&answer.await?).ok_or_else(|| CliError::Garbled {
            what: "the job was submitted".into(),
            source: "it does not name the job".into(),
        })
    }

    /// What would become of a job if it were submitted now.
    pub(super) async fn forecast(&self, yaml: String) -> Result<JobForecast, CliError> {
        let what = "the job would not be accepted";
        let path = "/api/muster/v1/jobs/what-if";
        let answer = self.client.send_yaml(what, Method::POST, path, yaml);
        understood(what, &answer.await?)
    }

    /// Asks for a job's end.
    pub(super) async fn stop(&self, key: &JobKey) -> Result<(), CliError> {
        let path = format!("/api/v2/jobs/{key}/executionType");
        let what = format!("cannot stop {key}");
        let body = json!({ "value": "STOP" });
        self.client.put(&what, &path, &body).await
    }

    /// One job at an attempt, the latest if none is named.
    pub(super) async fn job(
        &self,
        key: &JobKey,
        attempt: Option<u32>,
    ) -> Result<Dated<JobDetail>, CliError> {
        let mut path = format!("/api/muster/v1/jobs/{key}");
        if let Some(attempt) = attempt {
            let _ = write!(path, "?attempt={attempt}");
        }
        self.client.get(&format!("cannot show {key}"), &path).await
    }

    /// Why a job waits.
    pub(super) async fn explanation(&self, key: &JobKey) -> Result<Explanation, CliError> {
        let path = format!("/api/muster/v1/jobs/{key}/explanation");
        self.client
            .get(&format!("cannot explain {key}"), &path)
            .await
    }

    /// What the tasks of a running job do at this moment.
    pub(super) async fn stacks(
        &self,
        key: &JobKey,
        filter: &StacksFilter,
    ) -> Result<JobStacks, CliError> {
        let mut path = format!("/api/muster/v1/jobs/{key}/stacks");
        let parameters = [
            filter.role.as_ref().map(|role| format!("role={role}")),
            filter.index.map(|index| format!("task={index}")),
            filter.all_threads.then(|| "all_threads=true".to_owned()),
        ];
        let parameters: Vec<String> = parameters.into_iter().flatten().collect();
        if !parameters.is_empty() {
            let _ = write!(path, "?{}", parameters.join("&"));
        }
        let what = format!("cannot look what {key} does");
        self.client.post(&what, &path, &json!({})).await
    }

    /// Returns when the job is final or `limit` has passed, whichever comes first.
    pub(super) async fn settle(&self, key: &JobKey, limit: Duration) -> Result<(), CliError> {
        if limit < WAIT_LEAST {
            sleep(limit).await;
            return Ok(());
        }
        self.wait(key, "", limit).await
    }

    /// Returns when the job has got on since it had this mark, or is final, or `limit` has passed.
    pub(super) async fn changed(
        &self,
        key: &JobKey,
        seen: &str,
        limit: Duration,
    ) -> Result<(), CliError> {
        let seen = format!("seen={}&", encode(seen));
        self.wait(key, &seen, limit).await
    }

    async fn wait(&self, key: &JobKey, query: &str, limit: Duration) -> Result<(), CliError> {
        let ms = limit.as_millis();
        let path = format!("/api/muster/v1/jobs/{key}/wait?{query}timeout_ms={ms}");
        let request = self.client.request(Method::GET, &path);
        let what = format!("cannot wait for {key}");
        self.client
            .call(&what, request, client::empty(), limit + ANSWER_TIMEOUT)
            .await?;
        Ok(())
    }

    /// Opens a log, over all its files.
    pub(super) async fn log(
        &self,
        key: &JobKey,
        source: &LogSource,
        part: LogSelection,
    ) -> Result<OpenLog, CliError> {
        let LogSource {
            task,
            attempt,
            task_attempt,
            name,
        } = source;
        let (role, index) = (&task.role, task.index);
        let mut path = format!(
            "/api/muster/v1/jobs/{key}/attempts/{attempt}/tasks/{role}/{index}/{task_attempt}\
             /logs/{}?whole=true&follow={}",
            encode(name),
            part.follow
        );
        if let LogStart::Tail(bytes) = part.start {
            let _ = write!(path, "&tail={bytes}");
        }
        let mut request = self.client.request(Method::GET, &path);
        if let LogStart::Byte(byte) = part.start {
            request = request.header(RANGE, format!("bytes={byte}-"));
        }
        let what = format!("cannot read the log {name} of {task}");
        let answer = self.client.send(&what, request, client::empty()).await?;
        Ok(OpenLog {
            start: first_byte(&answer, part.start),
            body: answer.into_body(),
        })
    }

    /// What an attempt of a task used.
    pub(super) async fn task_use(
        &self,
        key: &JobKey,
        source: &LogSource,
    ) -> Result<TaskUse, CliError> {
        let LogSource {
            task,
            attempt,
            task_attempt,
            ..
        } = source;
        let (role, index) = (&task.role, task.index);
        let path = format!(
            "/api/muster/v1/jobs/{key}/attempts/{attempt}/tasks/{role}/{index}/{task_attempt}/use"
        );
        self.client.get("cannot tell what it used", &path).await
    }

    /// Every virtual cluster.
    pub(super) async fn virtual_clusters(&self) -> Result<Vec<VcView>, CliError> {
        let path = "/api/muster/v1/virtual-clusters";
        let what = "cannot show virtual clusters";
        self.client.get(what, path).await
    }

    /// Every machine of the cluster.
    pub(super) async fn nodes(&self) -> Result<Vec<KnownNode>, CliError> {
        let path = "/api/muster/v1/nodes";
        self.client.get("cannot list the nodes", path).await
    }

    /// The agent's machine.
    pub(super) async fn node(&self) -> Result<NodeView, CliError> {
        self.client
            .get("cannot show the node", "/api/muster/v1/node")
            .await
    }

    /// Images on the agent's machine.
    pub(super) async fn images(&self) -> Result<Vec<ImageView>, CliError> {
        self.client
            .get("cannot list images", "/api/muster/v1/images")
            .await
    }

    /// Sends an archive of `length` bytes, where known; the answer's body is progress lines.
    pub(super) async fn import_image(
        &self,
        name: Option<&str>,
        length: Option<u64>,
        archive: RequestBody,
    ) -> Result<Incoming, CliError> {
        let mut path = "/api/muster/v1/images/import".to_owned();
        if let Some(name) = name {
            let _ = write!(path, "?name={}", encode(name));
        }
        let mut request = self.client.request(Method::POST, &path);
        if let Some(length) = length {
            request = request.header(CONTENT_LENGTH, length);
        }
        let request = request.header(CONTENT_TYPE, "application/octet-stream");
        let answer = self
            .client
            .send("cannot import the archive", request, archive)
            .await?;
        Ok(answer.into_body())
    }

    /// Pulls an image; the answer's body is progress lines.
    pub(super) async fn pull_image(&self, name: &str) -> Result<Incoming, CliError> {
        let request = self
            .client
            .request(Method::POST, "/api/muster/v1/images/pull");
        let (request, body) = client::json(request, &json!({ "name": name }));
        let answer = self
            .client
            .send(&format!("cannot pull {name}"), request, body)
            .await?;
        Ok(answer.into_body())
    }

    /// Removes an image.
    pub(super) async fn remove_image(&self, name: &str) -> Result<(), CliError> {
        let path = format!("/api/muster/v1/images?name={}", encode(name));
        let what = format!("cannot remove {name}");
        self.client.delete(&what, &path).await
    }
}

fn encode(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, PLAIN)
}

impl Accepted {
    fn read(body: &Bytes) -> Option<Self> {
        #[derive(Deserialize)]
        struct SubmitAnswer {
            message: String,
            #[serde(default)]
            warnings: Vec<Remark>,
        }
        let answer: SubmitAnswer = serde_json::from_slice(body).ok()?;
        Some(Self {
            key: key_of_message(&answer.message)?,
            warnings: answer.warnings,
        })
    }
}

/// OpenPAI names a submitted job in a sentence: `Update job NAME for user USER successfully.`
fn key_of_message(message: &str) -> Option<JobKey> {
    let mut words = message.split(' ').skip_while(|word| *word != "job");
    let name = words.nth(1)?;
    let mut words = words.skip_while(|word| *word != "user");
    let user = words.nth(1)?;
    format!("{user}~{name}").parse().ok()
}

/// The byte of the log that an answer's body begins at.
fn first_byte(answer: &Response<Incoming>, asked: LogStart) -> Option<u64> {
    let told = answer
        .headers()
        .get(LOG_START)
        .and_then(|value| value.to_str().ok());
    match told {
        Some(start) => start.parse().ok(),
        None => (asked == LogStart::Beginning).then_some(0),
    }
}
