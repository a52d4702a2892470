//! When an attempt is decided, by the tasks that have ended for good so far.

use muster_model::exit::Verdict;
use muster_model::id::TaskId;
use muster_model::job::JobSpec;
use muster_model::view::Trigger;

use super::attempt::{AttemptOutcome, AttemptRecord};
use crate::verdict;

/// Looks at the attempt after `last` ended for good. Tasks end one entry at a time, so a
/// condition that holds now was met by `last`; failure is looked at first, as OpenPAI does.
pub(super) fn decide(
    spec: &JobSpec,
    attempt: &AttemptRecord,
    last: &TaskId,
    at_ms: u64,
) -> Option<AttemptOutcome> {
    reached(spec, attempt, last, at_ms).or_else(|| all_ended(attempt, last, at_ms))
}

/// What the count that the last task is part of decides.
pub(super) fn reached(
    spec: &JobSpec,
    attempt: &AttemptRecord,
    last: &TaskId,
    at_ms: u64,
) -> Option<AttemptOutcome> {
    let role = spec.roles.iter().find(|role| role.name == last.role)?;
    let count = |failed: bool| {
        let ended = attempt
            .ended()
            .filter(|(task, verdict)| task.role == last.role && (verdict.code() != 0) == failed);
        i32::try_from(ended.count()).unwrap_or(i32::MAX)
    };
    let (_, verdict) = attempt.ended().find(|(task, _)| *task == last)?;
    let (failed, succeeded) = (count(true), count(false));
    if verdict.code() != 0 && role.min_failed >= 1 && failed >= role.min_failed {
        let message = format!(
            "FailedTaskCount {failed} has reached MinFailedTaskCount {} in the TaskRole",
            role.min_failed
        );
        return Some(outcome(verdict.clone(), message, last, at_ms));
    }
    if verdict.code() == 0 && role.min_succeeded >= 1 && succeeded >= role.min_succeeded {
        let message = format!(
            "SucceededTaskCount {succeeded} has reached MinSucceededTaskCount {} in the TaskRole",
            role.min_succeeded
        );
        return Some(outcome(verdict.clone(), message, last, at_ms));
    }
    None
}

/// Nothing is left that could decide it.
fn all_ended(attempt: &AttemptRecord, last: &TaskId, at_ms: u64) -> Option<AttemptOutcome> {
    if attempt.tasks.iter().any(|task| task.completed.is_none()) {
        return None;
    }
    let message = format!("All {} tasks have ended", attempt.tasks.len());
    Some(outcome(verdict::succeeded(), message, last, at_ms))
}

/// What the deciding task used stays with the task: the attempt has used more.
fn outcome(mut verdict: Verdict, message: String, last: &TaskId, at_ms: u64) -> AttemptOutcome {
    verdict.used = None;
    AttemptOutcome {
        verdict,
        trigger: Trigger {
            message,
            task: Some(last.clone()),
        },
        at_ms,
    }
}
