//! The entries of a virtual cluster's log.

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{AttemptUid, JobKey, NodeId, TaskId};
use muster_model::job::JobSpec;
use muster_model::launch::TaskPlacement;
use muster_model::state::ExecutionType;
use muster_model::view::TaskHold;
use serde::{Deserialize, Serialize};

use super::document::JobDocument;
use crate::bound::BoundLeaves;
use crate::entry_bytes::{self, DecodeError, EncodeError};
use crate::fence::{LedgerEpoch, Term};
use crate::gang::{GangRun, JobId};
use crate::lease::LeaseTime;

/// First byte of every encoded entry. A changed layout takes the next number.
const VERSION: u8 = 5;

/// A job that passed every check at the gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedJob {
    /// Whose, and its name.
    pub key: JobKey,
    /// Random, new for every submission. Every attempt's uid is made of it.
    pub uid: AttemptUid,
    /// The job, validated, but for what its document holds.
    pub spec: JobSpec,
    /// The document as submitted, secrets replaced by `******`, and what its tasks run.
    pub document: JobDocument,
    /// Its sealed secrets; empty if it has none.
    #[serde(with = "serde_bytes")]
    pub sealed_secrets: Vec<u8>,
    /// When it was submitted, milliseconds since the epoch.
    pub submitted_ms: u64,
}

/// One committed fact. All times are the proposer's clock, milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcEntry {
    /// A leader begins its term. Before this entry of its own it sends no order.
    Elected {
        /// Its term.
        term: Term,
    },
    /// A job is taken; from here on it is never lost. Said again of the same submission, it
    /// changes nothing.
    Accept(Box<AcceptedJob>),
    /// The user starts or stops a job.
    SetExecution {
        /// The job.
        job: JobKey,
        /// What the user wants.
        value: ExecutionType,
        /// When.
        at_ms: u64,
    },
    /// Sets a tag; setting it again changes nothing.
    AddTag {
        /// The job.
        job: JobKey,
        /// The tag.
        tag: String,
    },
    /// Removes a tag.
    RemoveTag {
        /// The job.
        job: JobKey,
        /// The tag.
        tag: String,
    },
    /// Where a run's tasks go. At most one per run. The run that is placed already, and has not had its Go,
    /// is followed by its next round so: whoever is well keeps its place.
    Placed(Box<Placed>),
    /// All tasks of the run were ready: the user's commands may start.
    Go {
        /// The run.
        run: GangRun,
        /// After so many seconds it is ended, by the policy of that moment; none: it has no limit.
        limit_s: Option<u64>,
        /// When.
        at_ms: u64,
    },
    /// The run cannot start where it was placed, and no other places were found for those who need one.
    /// Its tasks are stopped; the gang waits for a place again, a round higher.
    Void {
        /// The run.
        run: GangRun,
        /// Why, a sentence.
        reason: String,
        /// When.
        at_ms: u64,
    },
    /// The platform ends a run: the barrier's time is over, or it is preempted.
    Stopping {
        /// The run.
        run: GangRun,
        /// Why.
        cause: Cause,
        /// The job that it gives way to, if it is preempted.
        by: Option<JobKey>,
        /// When.
        at_ms: u64,
    },
    /// A task of a placed run has ended, and its node keeps nothing of it running.
    TaskEnded {
        /// The run.
        run: GangRun,
        /// The task.
        task: TaskId,
        /// Its attempt's uid.
        uid: AttemptUid,
        /// How.
        end: TaskEnd,
        /// When.
        at_ms: u64,
    },
    /// A task of a run has failed, and its container is kept for a time before the task ends.
    OnHold {
        /// The run.
        run: GangRun,
        /// The task.
        task: TaskId,
        /// Its attempt's uid.
        uid: AttemptUid,
        /// How it failed, and until when it is kept.
        hold: Box<TaskHold>,
        /// When.
        at_ms: u64,
    },
    /// What the `cluster` group has bound the virtual cluster to.
    Bound {
        /// The place of its entry that changed that last.
        version: u64,
        /// All of it.
        cells: BoundLeaves,
    },
    /// It gives these cells back: nothing is placed on them before it is bound to them again.
    Released(BoundLeaves),
    /// One leader has led for another hour, by the clock that nobody sets: what ended long before is forgotten.
    HourPassed,
}

/// A committed placement of a whole gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The run.
    pub run: GangRun,
    /// Every task of the gang, in the job's order.
    pub members: Vec<TaskPlacement>,
    /// The ledger of each node named in `members`.
    pub ledgers: Vec<(NodeId, LedgerEpoch)>,
    /// The run lease that its tasks hold by; none: they run for as long as they like.
    pub lease: Option<LeaseTime>,
    /// Whether it is on cells that the virtual cluster is bound to, and on no other.
    pub is_within: bool,
    /// Why some members of the round before have other places in this one, a sentence part.
    pub instead: Option<String>,
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
}

/// How a placed task came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskEnd {
    /// Its node reported this.
    Exit(Box<Verdict>),
    /// Its node answered that nothing of it is there.
    Gone,
    /// Nothing was heard of its node for longer than its run lease can last.
    Lost,
    /// The job does not wait for the word of a node that cannot be reached.
    Overlapped,
    /// An admin said that its node is off.
    Off,
    /// Its run had no Go and never will, so that nothing of the user's has run, or can; its node cannot be
    /// reached.
    NotStarted,
}

impl VcEntry {
    /// The entry as bytes for the log.
    ///
    /// # Errors
    /// When the encoder fails, which means a bug.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        entry_bytes::encode(VERSION, self)
    }

    /// Reads an entry from the log.
    ///
    /// # Errors
    /// When the bytes are not an entry of a known version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        entry_bytes::decode(VERSION, bytes)
    }
}

/// What applying an entry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcApplied {
    /// A term began.
    Term(Term),
    /// This job was touched.
    Job {
        /// The job.
        id: JobId,
        /// It has ended for good with this entry.
        completed: bool,
    },
    /// It is bound to other cells than before.
    Cells,
    /// Another hour was counted.
    Hour,
}

/// Why an entry changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum VcRejection {
    /// The name is taken by a job that is still listed.
    #[error("job {0} exists already")]
    JobExists(JobKey),
    /// No such job.
    #[error("job {0} is not found")]
    NoJob(JobKey),
    /// The job has no such tag.
    #[error("tag {0} is not found")]
    NoTag(String),
    /// A limit is reached.
    #[error("the virtual cluster holds {count} unfinished jobs, which is the limit")]
    QueueFull {
        /// The limit.
        count: usize,
    },
    /// The job carries more tags than allowed.
    #[error("a job may carry {count} tags")]
    TooManyTags {
        /// The limit.
        count: usize,
    },
    /// A stopped job cannot be started again.
    #[error("job {0} was stopped, and there is no way back")]
    AlreadyStopped(JobKey),
    /// The run is not the one that the state expects; nothing is wrong, it came late.
    #[error("{0} is not current")]
    NotCurrent(GangRun),
    /// The placement does not name exactly the tasks of the gang.
    #[error("the placement of {0} does not name exactly the gang's tasks")]
    WrongMembers(GangRun),
    /// The virtual cluster is not bound to a cell that the placement is on, or not any more.
    #[error("{0} would be on cells that are not the virtual cluster's own")]
    NotOwn(GangRun),
    /// Something newer was said of its cells.
    #[error("its cells as of entry {0} of the cluster's log are no news")]
    OldBinding(u64),
    /// The cells are not what the entry takes them for.
    #[error("the cells are left as they are: {0}")]
    Cells(String),
    /// A term below the newest.
    #[error("term {0:?} is over")]
    OldTerm(Term),
}
