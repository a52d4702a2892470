//! Why a storage cannot be used.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_init::storage::{StorageProblem, StorageProblemKind};

/// Why a storage cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StorageError {
    /// Its server has not answered.
    #[error("the server has not answered for {} s", .0.as_secs())]
    Late(Duration),
    /// The step failed.
    #[error("{0}")]
    Refused(StorageProblem),
    /// The helper cannot be started.
    #[error("cannot start {program}", program = .program.display())]
    Start {
        /// The helper.
        program: PathBuf,
        /// Why.
        source: Arc<std::io::Error>,
    },
    /// The helper ended without an answer.
    #[error("the helper that mounts storages ended without an answer")]
    NoAnswer,
}

impl StorageError {
    /// Whether the image has no place for it, so that it is so on any machine.
    pub fn is_of_image(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.kind == StorageProblemKind::BadPlace)
    }
}
