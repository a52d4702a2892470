//! What a runner tells.

use muster_model::exit::{Evidence, RawExit};
use muster_model::id::AttemptUid;

use crate::engine::Usage;

/// News of one task. Of each kind but `Held` at most one comes, in the order below; `LaunchFailed` or
/// `Exited` always comes, and `Gone` after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// Its container runs.
    Started {
        /// The task.
        uid: AttemptUid,
    },
    /// Its commands can be run; it waits for [`super::Handle::go`].
    Ready {
        /// The task.
        uid: AttemptUid,
    },
    /// Its first command began.
    Running {
        /// The task.
        uid: AttemptUid,
        /// When, milliseconds since the epoch.
        launched_ms: u64,
    },
    /// It ended before any of its commands began.
    LaunchFailed {
        /// The task.
        uid: AttemptUid,
        /// Why.
        exit: RawExit,
    },
    /// Its commands failed, and its container is kept. May come again, of the same end.
    Held {
        /// The task.
        uid: AttemptUid,
        /// How they ended: what it will have exited with.
        evidence: Box<Evidence>,
        /// When its first command began, milliseconds since the epoch; 0 if that is not known.
        launched_ms: u64,
        /// Whether it had the fabric.
        infiniband: bool,
        /// Until then at most, milliseconds since the epoch.
        until_ms: u64,
    },
    /// It ended, and its logs are whole.
    Exited {
        /// The task.
        uid: AttemptUid,
        /// How. Events of devices are for the receiver to add.
        evidence: Box<Evidence>,
        /// When its first command began, milliseconds since the epoch; 0 if that is not known.
        launched_ms: u64,
        /// Whether it had the fabric.
        infiniband: bool,
        /// What the kernel counted until then; all zero where nothing could be read.
        usage: Usage,
    },
    /// Nothing of its container is left; its devices are free. Its logs stay.
    Gone {
        /// The task.
        uid: AttemptUid,
    },
}
