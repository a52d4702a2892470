//! Why the cluster did not do what it was asked, by any of the ports.

use muster_model::people::PeopleDenial;
use muster_model::protocol::{JobProblem, upstream_message};
use muster_model::sight::HiddenJobs;
use muster_model::storage_file::FileDenial;
use muster_model::vc::unknown;

/// Why the cluster did not do what it was asked. Display is the message that clients show: OpenPAI's,
/// where it has one that they may match. The gateway maps each to a status and OpenPAI's code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PortError {
    #[error("User {0} is not found.")]
    NoUser(String),
    #[error("Password is incorrect.")]
    WrongPassword,
    /// Too many passwords are being checked. The same may work a little later.
    #[error("Too many logins at a time; try again.")]
    LoginsBusy,
    /// The user holds no such token.
    #[error("The token is not found among yours; it may have expired.")]
    NoToken,
    #[error("Your token is invalid.")]
    InvalidToken,
    /// Why users or groups are not changed.
    #[error(transparent)]
    People(#[from] PeopleDenial),
    #[error("{0}")]
    Forbidden(String),
    /// Jobs that the user does not see.
    #[error(transparent)]
    Hidden(#[from] HiddenJobs),
    #[error("Job {0} is not found.")]
    NoJob(String),
    #[error("JobAttemptId {attempt} is not found in {job}.")]
    NoAttempt { job: String, attempt: u32 },
    #[error("Task {task} is not found in Job {job}.")]
    NoTask { job: String, task: String },
    #[error("Tag {0} is not found.")]
    NoTag(String),
    #[error("Log of task is not found.")]
    NoLog,
    #[error("Image {0} is not found on this node.")]
    NoImage(String),
    /// Files of a storage.
    #[error(transparent)]
    File(#[from] FileDenial),
    /// Storages that a job names.
    #[error("{}", upstream_message(.0))]
    NoStorage(Vec<JobProblem>),
    #[error("Job {job} already exists.")]
    JobExists {
        job: String,
        /// Whether it is the job that was submitted, but for the values of secrets; none: not known.
        same: Option<bool>,
    },
    /// Protocol errors, all of them.
    #[error("{}", upstream_message(.0))]
    InvalidJob(Vec<JobProblem>),
    /// Anything the cluster cannot do now: full disk, lost leader, hung engine.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Invalid(String),
    #[error("Document {0} is not found.")]
    NoDocument(String),
    #[error("Version {version} of {document} is not found: the latest ones are kept.")]
    NoVersion { document: String, version: u64 },
    #[error("Member {0} is not found.")]
    NoMember(String),
    #[error("Part {0} is not found on that member.")]
    NoPart(String),
    #[error("{}", unknown(.0))]
    NoVc(String),
    #[error("Token {0} is not found.")]
    NoJoinToken(String),
    /// Somebody else edited the document first.
    #[error(
        "Somebody else edited {document}: it is at version {current} by now, not at {base}. Look at \
         what changed, then edit version {current}."
    )]
    DocumentConflict {
        document: String,
        base: u64,
        current: u64,
    },
    /// What is wrong with a document, all of it.
    #[error("{}", .0.join("\n"))]
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
