//! What the agent asks of the helper.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::problem::StorageProblem;

/// What became of a request.
pub type StorageAnswer = Result<(), StorageProblem>;

/// A step, and where the namespace of storages is pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageRequest {
    /// The file that the namespace is mounted on. Its directory holds nothing else.
    pub namespace: PathBuf,
    /// What to do.
    pub step: StorageStep,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageStep {
    /// Make the namespace, unless it is there already.
    Make,
    /// Mount a storage, unless it is mounted there already.
    Mount(MountCall),
    /// Ask the server of a mounted storage for an answer.
    Check {
        /// Where it is mounted.
        target: PathBuf,
    },
    /// Unmount a storage. One that is not mounted is no error.
    Unmount {
        /// Where it is mounted.
        target: PathBuf,
        /// How.
        mode: UnmountMode,
    },
    /// Put mounted storages into a container.
    Attach {
        /// A process in the container, by the host's number.
        pid: u32,
        /// Which, and where.
        places: Vec<AttachedPlace>,
    },
    /// Give the namespace up. What is mounted in it is unmounted with its last user.
    Leave,
}

/// A call of mount(8).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountCall {
    /// The directory in the namespace; it is made if it is not there.
    pub target: PathBuf,
    /// The type of the file system: `nfs`.
    pub kind: String,
    /// What is mounted: `server:/path`.
    pub source: String,
    /// Options, of which none is secret.
    pub options: Vec<String>,
    /// Variables of mount's helper that are secret.
    pub secrets: Vec<(String, String)>,
}

impl fmt::Debug for MountCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("MountCall");
        shown.field("target", &self.target);
        shown.field("kind", &self.kind);
        shown.field("source", &self.source);
        shown.field("options", &self.options);
        shown.finish_non_exhaustive()
    }
}

/// How often the requests to a mounted storage can be made to fail.
pub const ABORTS_MAX: usize = 8;

/// How a storage is unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnmountMode {
    /// Only if nothing uses it.
    Idle,
    /// Requests that wait for its server fail, in containers too. It stays mounted. Can be done [`ABORTS_MAX`] times.
    Abort,
    /// It is gone for those who come. Containers keep what they have.
    Detach,
}

/// A directory of a storage, as a container sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachedPlace {
    /// The directory in the namespace of storages: where a storage is mounted, or a path of the host.
    pub source: PathBuf,
    /// Whether a storage is to be mounted there: if none is, there are no files of it. A path of the host may have no
    /// symbolic links, for tasks can make some.
    pub is_storage: bool,
    /// The way from there down: names without a slash.
    pub below: Vec<String>,
    /// Whether directories on the way are made that are missing.
    pub creates: bool,
    /// Where the container sees it; made if it is not there.
    pub target: PathBuf,
    /// Whether it may only be read.
    pub read_only: bool,
}
