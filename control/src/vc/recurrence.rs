//! The same failure on the same node twice in a row: the next attempt goes elsewhere, if there is room.
//!
//! Rules judge a failure by what is seen of it. A node may be at fault without a sign of it: a disk that gives wrong
//! bytes, a link that drops frames. Two failures alike are no proof, so the node stays in use for others.

use muster_model::exit::{Behavior, Verdict};
use muster_model::id::{NodeId, TaskId};

use super::attempt::{AttemptRecord, TaskAttempt};
use super::job::JobRecord;
use super::retry;
use crate::verdict::EXIT_PREEMPTED;

/// An end, and the node of the task that it began with.
struct Failure<'a> {
    verdict: &'a Verdict,
    node: &'a NodeId,
}

impl JobRecord {
    /// The node that the next attempt of a gang shuns: the last two failed alike there, without getting on between, or
    /// the rule that led to the last end says so. `task`: of the gang of one task; of all tasks if none is named.
    pub(crate) fn shunned_by(&self, task: Option<&TaskId>) -> Option<&NodeId> {
        let (before, last) = match task {
            None => {
                let mut newest = self.old.iter().rev().map(of_attempt);
                let last = newest.next()??;
                (newest.next().flatten(), last)
            }
            Some(task) => {
                let record = self.attempt.tasks.iter().find(|it| it.id == *task)?;
                let ended = record.attempts().filter(|it| it.completed.is_some());
                let mut newest: Vec<_> = ended.map(of_task).collect();
                let last = newest.pop()??;
                (newest.pop().flatten(), last)
            }
        };
        let judged = last.verdict.judged.as_ref();
        let is_told = judged.is_some_and(|judged| judged.goes_elsewhere);
        let recurs = may_be_the_nodes(last.verdict)
            && before.is_some_and(|before| {
                last.node == before.node
                    && retry::is_same_reason(before.verdict, last.verdict)
                    && !retry::has_progressed(before.verdict, last.verdict)
            });
        (is_told || recurs).then_some(last.node)
    }
}

/// How an attempt of the job ended, if a task began it.
fn of_attempt(attempt: &AttemptRecord) -> Option<Failure<'_>> {
    let outcome = attempt.outcome.as_deref()?;
    let task = outcome.trigger.task.as_ref()?;
    let record = attempt.tasks.iter().find(|it| it.id == *task)?;
    Some(Failure {
        verdict: &outcome.verdict,
        node: &record.last().placement.as_deref()?.node,
    })
}

fn of_task(attempt: &TaskAttempt) -> Option<Failure<'_>> {
    Some(Failure {
        verdict: attempt.verdict.as_deref()?,
        node: &attempt.placement.as_deref()?.node,
    })
}

/// Whether another node might make a difference: not to a success, to what gave way, and to what fails everywhere.
fn may_be_the_nodes(verdict: &Verdict) -> bool {
    let is_failure = verdict.code() != 0 && verdict.code() != EXIT_PREEMPTED;
    is_failure && verdict.spec.behavior != Behavior::Permanent
}
