//! One storage that is mounted here, or was to be.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_model::id::AttemptUid;
use tokio::time::Instant;

use super::error::StorageError;

/// What uses a storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageUser {
    /// A task.
    Task(AttemptUid),
    /// A person's request for files, by a number of its own.
    Files(u64),
}

impl StorageUser {
    /// The task, if it is one.
    pub const fn task(&self) -> Option<&AttemptUid> {
        match self {
            Self::Task(uid) => Some(uid),
            Self::Files(_) => None,
        }
    }
}

/// A storage by its key.
#[derive(Debug)]
pub(super) struct MountSlot {
    /// Its name in the cluster.
    pub(super) name: String,
    /// Where it is mounted.
    pub(super) target: PathBuf,
    /// One step at a time: of tasks that come at one moment one has it mounted.
    pub(super) step: tokio::sync::Mutex<()>,
    state: Mutex<SlotState>,
}

/// What is known about the storage.
#[derive(Debug)]
pub(super) struct SlotState {
    /// What waits until it is mounted.
    pub(super) waiting: BTreeSet<StorageUser>,
    /// What uses it, and how long its server may be silent for each; none: for ever.
    pub(super) users: BTreeMap<StorageUser, Option<Duration>>,
    /// When the last of them left.
    pub(super) idle_since: Instant,
    /// When it answered last.
    pub(super) answered: Option<Instant>,
    /// The failure since its last answer.
    pub(super) failure: Option<SlotFailure>,
    /// Whether tasks had lost it when it was looked at last.
    pub(super) is_lost: bool,
}

/// Why it cannot be used now.
#[derive(Clone, Debug)]
pub(super) struct SlotFailure {
    pub(super) since: Instant,
    /// When it was tried last.
    pub(super) at: Instant,
    pub(super) error: StorageError,
}

impl SlotState {
    /// Whether nothing has to do with it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.users.is_empty()
    }

    /// Notes that something has nothing to do with it any more.
    pub(super) fn leave(&mut self, user: &StorageUser) {
        let was_there = self.waiting.remove(user) | self.users.remove(user).is_some();
        if was_there && self.is_idle() {
            self.idle_since = Instant::now();
        }
    }
}

impl MountSlot {
    pub(super) fn new(name: String, target: PathBuf) -> Self {
        let state = SlotState {
            waiting: BTreeSet::new(),
            users: BTreeMap::new(),
            idle_since: Instant::now(),
            answered: None,
            failure: None,
            is_lost: false,
        };
        Self {
            name,
            target,
            step: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SlotState> {
        // Each change is whole, so a panic elsewhere left no half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a step said that began then.
    pub(super) fn note(&self, begun: Instant, said: &Result<(), StorageError>) {
        let mut state = self.state();
        match said {
            Ok(()) => {
                state.answered = Some(begun);
                state.failure = None;
            }
            Err(error) => {
                let since = state
                    .failure
                    .as_ref()
                    .map_or(begun, |failure| failure.since);
                state.failure = Some(SlotFailure {
                    since,
                    at: Instant::now(),
                    error: error.clone(),
                });
            }
        }
    }
}
