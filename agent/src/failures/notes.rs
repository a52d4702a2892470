//! Failures on their way to the disk. Who judges a task's end never waits for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use muster_model::exit::{Cause, Evidence, ExitPhase, RawExit};
use muster_model::id::AttemptUid;
use muster_model::rule_test::JudgedAs;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::record::{PLATFORM_LOG_MAX, USER_LOG_MAX, shorten};
use crate::documents::failure_rules::Rules;

/// What all failures that wait may take of the memory, KiB.
const WAITING_KIB_MAX: usize = 64 << 10;
const KIB: usize = 1 << 10;

/// A failure with its verdict.
#[derive(Debug)]
pub(crate) struct FailureNote {
    /// The attempt of the task.
    pub(crate) uid: AttemptUid,
    /// `user~job`.
    pub(crate) job: String,
    /// `role:index`.
    pub(crate) task: String,
    /// What the rules looked at.
    pub(crate) evidence: Evidence,
    /// The rules.
    pub(crate) rules: Arc<Rules>,
    /// What they said.
    pub(crate) judged: JudgedAs,
}

/// A failure that waits to be written, with its share of the memory.
#[derive(Debug)]
pub(crate) struct PendingFailure {
    pub(crate) note: FailureNote,
    _room: OwnedSemaphorePermit,
}

/// Takes failures. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FailureNotes {
    queue: mpsc::UnboundedSender<PendingFailure>,
    room: Arc<Semaphore>,
    /// Failures for which there was no room.
    lost: Arc<AtomicU64>,
}

/// Where failures go in, and where they come out.
pub(crate) fn notes() -> (FailureNotes, mpsc::UnboundedReceiver<PendingFailure>) {
    // Bounded by the memory of what waits.
    let (queue, pending) = mpsc::unbounded_channel();
    let notes = FailureNotes {
        queue,
        room: Arc::new(Semaphore::new(WAITING_KIB_MAX)),
        lost: Arc::default(),
    };
    (notes, pending)
}

impl FailureNotes {
    /// Has a failure kept. Never waits: where too many wait already, it is not kept, and the agent's log says so.
    pub(crate) fn note(&self, mut note: FailureNote) {
        shorten(&mut note.evidence.user_log, USER_LOG_MAX);
        shorten(&mut note.evidence.platform_log, PLATFORM_LOG_MAX);
        let bytes = note.evidence.user_log.len() + note.evidence.platform_log.len();
        let kib = u32::try_from(bytes / KIB + 1).unwrap_or(u32::MAX);
        match Arc::clone(&self.room).try_acquire_many_owned(kib) {
            Ok(room) => {
                // The loop ends only with the agent.
                let _ = self.queue.send(PendingFailure { note, _room: room });
            }
            Err(_) => {
                let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
                tracing::warn!(
                    uid = %note.uid,
                    lost,
                    "a failure is not kept for tests of failure rules: too many come at once"
                );
            }
        }
    }
}

/// Whether an end is a failure that rules are tried on: the task ran, and neither its user nor the platform wanted its
/// end.
pub(crate) fn is_failure(exit: &RawExit, code: i32) -> bool {
    let wanted = matches!(
        exit.cause,
        Some(Cause::UserStop | Cause::AttemptCompleted | Cause::Preempted | Cause::Drained)
    );
    code != 0 && exit.phase != ExitPhase::Launch && !wanted
}
