//! What can be found quickly: the queue, and the gangs that nodes may hold something for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::UserName;
use muster_model::state::PriorityClass;

use super::attempt::{AttemptGang, GangPhase};
use super::job::JobRecord;
use super::names::Names;
use super::newest::NewestJobs;
use crate::gang::{GangId, JobId};
use crate::usage_rules::HeldUse;

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
    pub(super) newest: NewestJobs,
    pub(super) waiting: BTreeSet<QueuePosition>,
    pub(super) live: BTreeSet<GangId>,
    /// What the jobs of each user have that have machines.
    pub(super) held: BTreeMap<UserName, HeldUse>,
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
        if let Some(more) = held(job) {
            let held = self.held.entry(job.accepted.key.user.clone()).or_default();
            *held = held.plus(more);
        }
    }

    pub(super) fn remove(&mut self, job: &JobRecord) {
        for (turn, gang) in turns(job) {
            self.waiting.remove(&turn);
            self.live.remove(&gang);
        }
        if let (Some(less), Some(held)) = (held(job), self.held.get_mut(&job.accepted.key.user)) {
            held.gpus = held.gpus.saturating_sub(less.gpus);
            held.jobs = held.jobs.saturating_sub(less.jobs);
            if *held == HeldUse::default() {
                self.held.remove(&job.accepted.key.user);
            }
        }
    }
}

/// What a job has, if it has machines.
fn held(job: &JobRecord) -> Option<HeldUse> {
    let mut gangs = job.attempt.gangs.iter();
    gangs.any(AttemptGang::is_live).then(|| {
        let live = job
            .attempt
            .tasks
            .iter()
            .filter(|task| task.live().is_some());
        let gpus = live.map(|task| job.gpus_of(&task.id)).sum();
        HeldUse { gpus, jobs: 1 }
    })
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
