//! What would become of a job if it were submitted now: a copy of the leader is given the job, and plans.
//!
//! So the answer is that of the very code which places jobs. Nothing that the copy sends or proposes goes
//! anywhere.

use muster_model::forecast::JobForecast;
use muster_model::id::JobKey;
use muster_model::sight::JobSight;
use muster_model::time::Time;

use super::{Coordinator, CoordinatorInput};
use crate::now::Now;
use crate::vc::{AcceptedJob, VcEntry, VcRejection, VcState};

/// The job comes after all others.
const LAST: u64 = u64::MAX;
/// Where a long queue waits a plan may be due a little later: it is looked ahead so far, milliseconds.
const LOOK_AHEAD_MS: u64 = 2_000;
/// So many times are looked at on the way.
const STEPS_MAX: usize = 32;

/// A copy of a leader, and of what it knows to be committed.
#[derive(Debug)]
pub struct JobTrial {
    coordinator: Coordinator,
    state: VcState,
    now: Now,
}

impl JobTrial {
    pub(super) const fn new(coordinator: Coordinator, state: VcState, now: Now) -> Self {
        Self {
            coordinator,
            state,
            now,
        }
    }

    /// What would become of the job. Other jobs are named as far as they are seen.
    ///
    /// # Errors
    /// Why it would not be taken.
    pub fn forecast(
        mut self,
        job: AcceptedJob,
        sight: &JobSight,
    ) -> Result<JobForecast, VcRejection> {
        let key = job.key.clone();
        let applied = self
            .state
            .apply(LAST, &VcEntry::Accept(Box::new(job.clone())))?;
        self.give(CoordinatorInput::Applied(Ok(applied)));
        self.look_ahead(&key);
        let explainer = self.coordinator.explainer(&self.state, sight);
        Ok(explainer.forecast(self.now.wall, &job))
    }

    /// Lets time pass until the job was planned.
    fn look_ahead(&mut self, key: &JobKey) {
        let until = self.now.steady.plus_millis(LOOK_AHEAD_MS);
        for _ in 0..STEPS_MAX {
            let next = self.coordinator.deadline().filter(|at| *at <= until);
            let Some(next) = next.filter(|_| !self.is_planned(key)) else {
                return;
            };
            let passed = next.micros_since(self.now.steady);
            self.now = Now {
                steady: self.now.steady.max(next),
                wall: Time(self.now.wall.0.saturating_add(passed)),
            };
            self.give(CoordinatorInput::Tick);
        }
    }

    /// Whether a plan has had to do with all gangs of the job.
    fn is_planned(&self, key: &JobKey) -> bool {
        let (planner, gangs) = (&self.coordinator.planner, &self.coordinator.gangs);
        let Some(id) = self.state.job_id(key) else {
            return true;
        };
        let mut own = self.state.gangs_of(id).map(|current| current.run.gang);
        own.all(|gang| gangs.is_reserving(&gang) || planner.has_decided(&gang))
    }

    fn give(&mut self, input: CoordinatorInput) {
        let mut dropped = Vec::new();
        self.coordinator
            .handle(self.now, &self.state, input, &mut dropped);
    }
}
