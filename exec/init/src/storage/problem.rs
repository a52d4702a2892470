//! What can be wrong with a storage.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageProblem {
    /// What kind of fault it is.
    pub kind: StorageProblemKind,
    /// The cause, for people.
    pub message: String,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StorageProblemKind {
    /// The machine lacks a program that mounts it.
    NoHelper,
    /// It is not mounted.
    NotMounted,
    /// The image has no place for it, on any machine.
    BadPlace,
    /// Something else.
    Failed,
}

impl StorageProblem {
    pub(super) const fn failed(message: String) -> Self {
        let kind = StorageProblemKind::Failed;
        Self { kind, message }
    }

    /// That something cannot be done.
    pub(super) fn of(what: &str, error: &io::Error) -> Self {
        Self::failed(format!("cannot {what}: {error}"))
    }
}

impl fmt::Display for StorageProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for StorageProblem {}
