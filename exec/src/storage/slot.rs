//! One storage that is mounted here, or was to be.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_model::id::AttemptUid;
use tokio::time::Instant;

use super::error::StorageError;

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

/// What is known of it.
#[derive(Debug)]
pub(super) struct SlotState {
    /// The tasks that use it.
    pub(super) users: BTreeSet<AttemptUid>,
    /// As the newest of them has it.
    pub(super) fail_after: Option<Duration>,
    /// When the last of them left.
    pub(super) idle_since: Instant,
    /// When it answered last.
    pub(super) answered: Option<Instant>,
    /// The failure since its last answer.
    pub(super) failure: Option<SlotFailure>,
}

/// Why it cannot be used now.
#[derive(Clone, Debug)]
pub(super) struct SlotFailure {
    pub(super) since: Instant,
    /// When it was tried last.
    pub(super) at: Instant,
    pub(super) error: StorageError,
}

impl MountSlot {
    pub(super) fn new(name: String, target: PathBuf) -> Self {
        let state = SlotState {
            users: BTreeSet::new(),
            fail_after: None,
            idle_since: Instant::now(),
            answered: None,
            failure: None,
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

    /// Notes what a step said. `answered`: when the step began.
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
