//! The cluster as the gateway sees it: a port. The agent implements it for real.
//!
//! The gateway keeps no state, so everything a request needs passes through here.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use muster_model::explanation::Explanation;
use muster_model::id::{AttemptUid, JobKey, TaskId, UserName, VcName};
use muster_model::image::{ImageProgress, ImageView};
use muster_model::job_query::JobQuery;
use muster_model::known_node::KnownNode;
use muster_model::login::Trust;
use muster_model::node::NodeView;
use muster_model::remark::Remark;
use muster_model::state::ExecutionType;
use muster_model::vc::{VcView, WhatIf};
use muster_model::view::{Age, Dated, Event, JobDetail, JobSummary, TaskView};

use crate::mesh::Mesh;

/// A stream of body bytes. An error ends it and closes the connection unfinished, so that a
/// client never takes a part for the whole.
pub type ByteStream = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// Who asks, after their token or the socket they came through was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Their name.
    pub user: UserName,
    /// Member of a group with the admin right.
    pub admin: bool,
    /// Came with an application token, which may not manage tokens.
    pub application: bool,
}

/// A fresh login.
#[derive(Clone, Debug)]
pub struct Login {
    /// Who.
    pub user: UserName,
    /// A JWT.
    pub token: String,
    /// Whether they are an admin.
    pub admin: bool,
}

/// What a token says, as `GET /tokens/check` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    /// Who, and with which rights.
    pub caller: Caller,
    /// Issued, seconds since the epoch.
    pub issued: u64,
    /// Expires, seconds since the epoch; never for an application token.
    pub expires: Option<u64>,
}

/// A user as others may see one.
#[derive(Clone, Debug, PartialEq)]
pub struct UserView {
    /// Their name.
    pub name: UserName,
    /// Their address, may be empty.
    pub email: String,
    /// Groups they belong to.
    pub groups: Vec<String>,
    /// Free-form JSON that clients keep with the user.
    pub extension: serde_json::Value,
    /// Whether they are an admin.
    pub admin: bool,
    /// Virtual clusters they may submit to.
    pub vcs: Vec<VcName>,
}

/// Jobs of a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listed {
    /// Those that were asked for. Each virtual cluster gives its first.
    pub jobs: Vec<JobSummary>,
    /// How many the filter takes.
    pub total: usize,
    /// Virtual clusters whose leaders do not answer, and no copy of their logs either: their jobs are
    /// missing.
    pub away: Vec<VcName>,
    /// Those whose jobs are told by a copy, and how old that is.
    pub aged: Vec<Age>,
}

/// One file of a task attempt's log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LogFile {
    /// `all`, `stdout`, `stderr`, `runtime.log`, each also with `.1` for the older part.
    pub name: String,
    /// Bytes it holds now.
    pub size: u64,
}

/// Which bytes of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRange {
    /// Everything that is kept.
    All,
    /// The last so many bytes.
    Tail(u64),
    /// From `start`; to `end` inclusive, if given.
    Bytes {
        /// First byte.
        start: u64,
        /// Last byte.
        end: Option<u64>,
    },
}

/// What of a job is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// That it has ended.
    End,
    /// That, or that it has got on since its mark was this one ([`JobSummary::mark`]).
    Change(String),
}

impl Awaited {
    /// Whether waiting is over.
    pub fn is_reached(&self, job: &JobSummary) -> bool {
        job.state().is_final() || matches!(self, Self::Change(seen) if *seen != job.mark())
    }
}

/// What is wanted of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWish {
    /// Which bytes.
    pub range: LogRange,
    /// The body goes on until the task has ended.
    pub follow: bool,
    /// The log's files are one, and bytes count from the first that was ever written. What is not kept
    /// any more is left out, so that the part may begin later than the range.
    pub whole: bool,
}

/// A part of a log file.
pub struct LogPart {
    /// Where the part begins in the file.
    pub start: u64,
    /// The file's size when it was opened.
    pub size: u64,
    /// Bytes of the part; unknown when following.
    pub length: Option<u64>,
    /// Its bytes.
    pub body: ByteStream,
}

impl fmt::Debug for LogPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPart")
            .field("start", &self.start)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// A stream of progress that ends after `Ready`s or a `Failed`.
pub type ProgressStream = Pin<Box<dyn Stream<Item = ImageProgress> + Send>>;

/// Why the cluster did not do what was asked. The gateway maps these to HTTP and OpenPAI codes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("user {0} is not found")]
    NoUser(String),
    #[error("the password is wrong")]
    WrongPassword,
    /// Too many passwords are being checked. The same may work a little later.
    #[error("too many logins at a time; try again")]
    LoginsBusy,
    /// The user holds no such token.
    #[error("the token is not found")]
    NoToken,
    #[error("the token is invalid")]
    InvalidToken,
    #[error("{0}")]
    Forbidden(String),
    #[error("job {0} is not found")]
    NoJob(String),
    #[error("attempt {attempt} is not found in {job}")]
    NoAttempt { job: String, attempt: u32 },
    #[error("task {task} is not found in {job}")]
    NoTask { job: String, task: String },
    #[error("tag {0} is not found")]
    NoTag(String),
    #[error("the log is not found")]
    NoLog,
    #[error("image {0} is not found")]
    NoImage(String),
    /// Storages that a job names.
    #[error("storages of the job are not found")]
    NoStorage(Vec<muster_model::protocol::Problem>),
    #[error("job {0} exists already")]
    JobExists(String),
    /// Protocol errors, all of them.
    #[error("the job is not valid")]
    InvalidJob(Vec<muster_model::protocol::Problem>),
    /// Anything the cluster cannot do now: full disk, lost leader, hung engine.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Invalid(String),
    #[error("document {0} is not found")]
    NoDocument(String),
    #[error("version {version} of {document} is not kept")]
    NoVersion { document: String, version: u64 },
    #[error("member {0} is not found")]
    NoMember(String),
    #[error("virtual cluster {0} is not found")]
    NoVc(String),
    #[error("token {0} is not found")]
    NoJoinToken(String),
    /// Somebody else edited the document first.
    #[error("{document} is at version {current} by now, not at {base}")]
    DocumentConflict {
        document: String,
        base: u64,
        current: u64,
    },
    /// What is wrong with a document, all of it.
    #[error("the document is not valid: {}", .0.join("; "))]
    InvalidDocument(Vec<String>),
    /// As this node or the cluster stands, it cannot be done; says what to do first.
    #[error("{0}")]
    NotNow(String),
    /// The other cluster did not admit this node.
    #[error("{0}")]
    JoinRefused(String),
    /// The other cluster had no time for this node: the same request may work a little later.
    #[error("{0}")]
    JoinBusy(String),
}

/// The virtual cluster of everything that no quota names.
pub const DEFAULT_VC: &str = muster_model::cluster_spec::EVERYTHING;
/// How often [`Cluster::wait`] asks where nothing tells it of changes.
const WAIT_POLL: Duration = Duration::from_millis(250);

/// A job that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Its name.
    pub key: JobKey,
    /// What of it is not carried out, or not as it reads.
    pub warnings: Vec<Remark>,
}

/// The cluster behind the gateway: users, jobs and this node, and by [`Mesh`] the other nodes.
#[async_trait]
pub trait Cluster: Mesh {
    /// Checks a password and issues a token.
    async fn login(&self, user: &str, password: &str, trust: Trust) -> Result<Login, Error>;
    /// Checks a token.
    async fn check_token(&self, token: &str) -> Result<TokenInfo, Error>;
    /// The caller's valid tokens.
    async fn tokens(&self, caller: &Caller) -> Result<Vec<String>, Error>;
    /// Issues an application token, which does not expire.
    async fn issue_application_token(&self, caller: &Caller) -> Result<String, Error>;
    /// Makes a token of the caller's invalid.
    async fn revoke_token(&self, caller: &Caller, token: &str) -> Result<(), Error>;
    /// Every user.
    async fn users(&self) -> Result<Vec<UserView>, Error>;
    /// One user.
    async fn user(&self, name: &str) -> Result<UserView, Error>;

    /// Accepts a job. When this returns, the job is on disk and every read shows it.
    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<Submitted, Error>;
    /// Lists jobs, in no particular order.
    async fn jobs(&self, query: &JobQuery) -> Result<Listed, Error>;
    /// One job at an attempt, the latest if none is named. This and what else is told of a job may be old,
    /// and says so; that there is no such job never is.
    async fn job(&self, key: &JobKey, attempt: Option<u32>) -> Result<Dated<JobDetail>, Error>;
    /// Why a job waits, in full.
    async fn explanation(&self, key: &JobKey) -> Result<Explanation, Error>;
    /// The job as submitted, its secrets replaced by `******`.
    async fn job_config(&self, key: &JobKey) -> Result<Dated<serde_json::Value>, Error>;
    /// Starts or stops a job.
    async fn set_execution_type(
        &self,
        caller: &Caller,
        key: &JobKey,
        value: ExecutionType,
    ) -> Result<(), Error>;
    /// Sets a tag; setting it again changes nothing.
    async fn add_tag(&self, caller: &Caller, key: &JobKey, tag: &str) -> Result<(), Error>;
    /// Removes a tag.
    async fn remove_tag(&self, caller: &Caller, key: &JobKey, tag: &str) -> Result<(), Error>;
    /// What happened to a job, in no particular order.
    async fn events(&self, key: &JobKey) -> Result<Dated<Vec<Event>>, Error>;
    /// One task of an attempt.
    async fn task(
        &self,
        key: &JobKey,
        attempt: u32,
        task: &TaskId,
    ) -> Result<Dated<TaskView>, Error>;

    /// The log files of a task attempt.
    async fn log_files(&self, uid: &AttemptUid) -> Result<Vec<LogFile>, Error>;
    /// Opens a log. A range that begins behind the end gives an empty part with `start` at the end, not
    /// an error.
    async fn read_log(&self, uid: &AttemptUid, name: &str, wish: LogWish)
    -> Result<LogPart, Error>;

    /// Waits for something of a job, at most so long, and answers how it stands then.
    ///
    /// This default asks again and again; an implementation that is told of changes overrides
    /// it.
    async fn wait(
        &self,
        key: &JobKey,
        awaited: &Awaited,
        timeout: Duration,
    ) -> Result<JobSummary, Error> {
        let end = tokio::time::Instant::now() + timeout;
        loop {
            let job = self.job(key, None).await?.value.summary;
            let next = tokio::time::Instant::now() + WAIT_POLL;
            if awaited.is_reached(&job) || next > end {
                return Ok(job);
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Every node of the cluster. An error where they are not known: never a part of them.
    async fn nodes(&self) -> Result<Vec<KnownNode>, Error>;
    /// Every virtual cluster.
    async fn virtual_clusters(&self) -> Result<Vec<VcView>, Error>;
    /// What would become of jobs and promises if the cluster were described so.
    /// [`Error::InvalidDocument`] when it cannot be.
    async fn what_if(&self, text: &str) -> Result<WhatIf, Error>;

    /// This node.
    async fn node(&self) -> Result<NodeView, Error>;
    /// Images on this node.
    async fn images(&self) -> Result<Vec<ImageView>, Error>;
    /// Imports every image of an OCI or docker archive. `name` overrides the archive's own.
    async fn import_image(
        &self,
        name: Option<String>,
        archive: ByteStream,
    ) -> Result<ProgressStream, Error>;
    /// Pulls an image from its registry.
    async fn pull_image(&self, name: &str) -> Result<ProgressStream, Error>;
    /// Removes an image.
    async fn remove_image(&self, name: &str) -> Result<(), Error>;
}
