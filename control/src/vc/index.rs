//! What can be found quickly: the queue, and the gangs that nodes may hold something for.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use muster_model::state::PriorityClass;

use super::attempt::GangPhase;
use super::job::JobRecord;
use super::names::Names;
use crate::gang::{GangId, JobId};

/// A waiting gang's place in the queue: priority, then the order of acceptance, then the
/// job's own order of tasks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueuePosition {
    pub(super) priority: Reverse<i32>,
    pub(super) job: JobId,
    /// Index among the attempt's gangs.
    pub(super) gang: usize,
}

/// Follows from the jobs; made anew when a snapshot is restored.
#[derive(Clone, Debug, Default)]
pub(super) struct JobIndex {
    pub(super) names: Names,
    pub(super) waiting: BTreeSet<QueuePosition>,
    pub(super) live: BTreeSet<GangId>,
}

impl JobIndex {
    pub(super) fn add(&mut self, job: &JobRecord) {
        for (turn, gang) in turns(job) {
            if job.attempt.gangs[turn.gang].phase == GangPhase::Waiting {
                self.waiting.insert(turn);
            } else if job.attempt.gangs[turn.gang].is_live() {
                self.live.insert(gang);
            }
        }
    }

    pub(super) fn remove(&mut self, job: &JobRecord) {
        for (turn, gang) in turns(job) {
            self.waiting.remove(&turn);
            self.live.remove(&gang);
        }
    }
}

fn turns(job: &JobRecord) -> impl Iterator<Item = (QueuePosition, GangId)> {
    let class = job.accepted.spec.priority.unwrap_or(PriorityClass::Test);
    let gangs = job.attempt.gangs.iter().enumerate();
    gangs.map(move |(i, gang)| {
        let turn = QueuePosition {
            priority: Reverse(class.priority()),
            job: job.id,
            gang: i,
        };
        let id = GangId {
            job: job.id,
            task: gang.task.clone(),
        };
        (turn, id)
    })
}
