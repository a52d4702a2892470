//! Files of storages, for people: each request is a process of muster-init, within bounds.
//!
//! Nothing here touches a file. A process that says nothing for too long is given up and killed; what it holds, its turn
//! and its use of the mount, is given back when the kernel has let go of it.

mod process;
mod turns;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_init::storage::AttachedPlace;
use muster_init::storage::files::{FileProblem, FileRequest, FileStep};

use super::error::StorageError;
use super::mounts::StorageMounts;
use super::source::MountSource;
use super::step_runner::StorageStepRunner;
pub use process::{FileFrame, FileHelper};
use turns::FileTurns;

/// How many requests for files there are at a time, and how long each may say nothing.
#[derive(Clone, Copy, Debug)]
pub struct FileLimits {
    /// On this node.
    pub node: usize,
    /// Of one user.
    pub user: usize,
    /// Without a sign of life.
    pub silence: Duration,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            node: 16,
            user: 2,
            silence: Duration::from_secs(30),
        }
    }
}

/// The directory of a storage that a user sees, and a path in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The storage.
    pub source: MountSource,
    /// The way from there to the directory that the user sees.
    pub below: Vec<String>,
    /// Whether it may only be read.
    pub read_only: bool,
    /// The path in that directory.
    pub path: String,
}

/// Why files of a storage cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FileError {
    /// The user has as many requests as one may.
    #[error("you have {0} transfers on this node already: wait for one of them to end")]
    TooMany(usize),
    /// The node has as many requests as it may.
    #[error("this node has {0} transfers already: try again, or ask another node")]
    NodeFull(usize),
    /// The storage cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The process said why.
    #[error("{}", .0.message)]
    Problem(FileProblem),
    /// The server has not answered.
    #[error("the server has not answered for {} s", .0.as_secs())]
    Silent(Duration),
    /// The process ended without an answer.
    #[error("the helper that reads and writes files ended without an answer")]
    NoAnswer,
}

/// Reads and writes files of storages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StorageFileAccess {
    steps: StorageStepRunner,
    mounts: Arc<StorageMounts>,
    turns: Arc<FileTurns>,
    limits: FileLimits,
}

impl StorageFileAccess {
    /// Access by these mounts.
    pub fn new(steps: StorageStepRunner, mounts: Arc<StorageMounts>, limits: FileLimits) -> Self {
        Self {
            steps,
            mounts,
            turns: Arc::new(FileTurns::new(limits.node, limits.user)),
            limits,
        }
    }

    /// Has a storage mounted, and begins a step with its files.
    ///
    /// # Errors
    /// When there are too many at a time, or the storage cannot be used.
    pub async fn begin(
        &self,
        user: &str,
        place: FilePlace,
        step: FileStep,
    ) -> Result<FileHelper, FileError> {
        let turn = FileTurns::take(&self.turns, user)?;
        let (source, hold) = match &place.source {
            MountSource::Host(path) => (path.clone(), None),
            MountSource::Mounted(using) => {
                let (source, hold) = StorageMounts::hold(&self.mounts, using).await?;
                (source, Some(hold))
            }
        };
        let request = self.request(source, place, step);
        let child = self.steps.start("storage-files")?;
        FileHelper::begin(child, (turn, hold), &request, self.limits.silence).await
    }

    fn request(&self, source: PathBuf, place: FilePlace, step: FileStep) -> FileRequest {
        FileRequest {
            namespace: self.steps.namespace().to_owned(),
            root: AttachedPlace {
                source,
                is_storage: matches!(place.source, MountSource::Mounted(_)),
                below: place.below,
                creates: !place.read_only,
                target: "/".into(),
                read_only: place.read_only,
            },
            path: place.path,
            step,
        }
    }
}

#[cfg(test)]
mod tests;
