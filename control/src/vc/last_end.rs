//! How the last attempt of a job that goes on ended, for those who wonder why it does not get on.

use muster_model::exit::Verdict;
use muster_model::id::TaskId;
use muster_model::view::LastEnd;

use super::attempt::{AttemptGang, GangPhase, TaskRecord};
use super::job::JobRecord;
use super::retry::{self, Count};

/// An end that another attempt followed.
struct Retried<'a> {
    task: Option<&'a TaskId>,
    attempt: u32,
    ended: u64,
    verdict: &'a Verdict,
    count: Count,
}

/// The newest end that another attempt followed, of the job or of a task that is tried again alone; none if the
/// job has ended, or nothing of it was tried again.
pub(super) fn last_end(job: &JobRecord) -> Option<LastEnd> {
    if job.completed.is_some() {
        return None;
    }
    let alone = job.attempt.tasks.iter().filter(|_| !job.accepted.spec.gang);
    let of_tasks = alone.filter_map(of_task);
    let newest = of_tasks.chain(of_job(job)).max_by_key(|end| end.ended)?;
    let spec = &newest.verdict.spec;
    let said = newest.verdict.diagnostics.trim();
    Some(LastEnd {
        task: newest.task.cloned(),
        attempt: newest.attempt,
        ended: newest.ended,
        code: spec.code,
        phrase: spec.phrase.clone(),
        reason: match said.is_empty() {
            true => spec.reason.clone().unwrap_or_default(),
            false => said.to_owned(),
        },
        solution: spec.solution.clone(),
        in_a_row: newest.count.same.into(),
        is_charged: newest.count.is_charged,
        tries_max: retry::tries_max(newest.verdict),
        next_at: next_at(job, newest.task),
    })
}

fn of_job(job: &JobRecord) -> Option<Retried<'_>> {
    let old = job.old.last()?;
    Some(Retried {
        task: None,
        attempt: old.id,
        ended: old.completed?,
        verdict: &old.outcome.as_ref()?.verdict,
        count: job.retries,
    })
}

/// A task that has ended for good is not tried again.
fn of_task(task: &TaskRecord) -> Option<Retried<'_>> {
    let last = task.before_last().filter(|_| task.completed.is_none())?;
    Some(Retried {
        task: Some(&task.id),
        attempt: last.no,
        ended: last.completed?,
        verdict: last.verdict.as_deref()?,
        count: task.retries,
    })
}

/// When the next attempt may be placed, if it has not been yet.
fn next_at(job: &JobRecord, task: Option<&TaskId>) -> Option<u64> {
    let waits = |gang: &&AttemptGang| gang.phase == GangPhase::Waiting && gang.pause.until_ms > 0;
    let gangs = job.attempt.gangs.iter().filter(waits);
    let its = gangs.filter(|gang| task.is_none_or(|task| gang.holds(task)));
    its.map(|gang| gang.pause.until_ms).min()
}
