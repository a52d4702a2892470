//! The gangs that a leader has in hand: each is reserved, launched, told to go and stopped by what is committed of
//! it and by what its nodes answer.
//!
//! A gang is looked at as a whole ([`GangSteering::steer`]) where something is committed, a time has come, or an answer may
//! change its next step. [`RunWork`] holds the facts of one run, [`GangRuns`] all runs.

mod answer;
mod ask;
mod carry_out;
mod drain;
mod launch;
mod link;
mod lost;
mod next_round;
mod parts;
mod relocate;
mod report;
mod reserve;
mod restart;
mod runs;
mod steer;
mod work;

use std::collections::BTreeSet;

use muster_model::id::NodeId;
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;

use crate::gang::{GangId, GangRun, JobId};
use crate::order::TaskStanding;
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, VcState};

pub(super) use lost::LivenessView;
pub(super) use parts::GangContext;
use relocate::Relocations;
use reserve::Reservations;
use restart::Restarts;
use runs::GangRuns;

/// What a leader is doing about gangs. Lost with the leadership, and made again from the state and reports.
#[derive(Clone, Debug, Default)]
pub(super) struct GangSteering {
    runs: GangRuns,
    reservations: Reservations,
    relocations: Relocations,
    restarts: Restarts,
}

impl GangSteering {
    /// A term begins: what the last leader was doing is not known.
    pub(super) fn begin_term(&mut self) {
        *self = Self::default();
    }

    /// Whether nothing is being done about any gang.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// When the first gang is to be looked at though nothing happens.
    pub(super) fn next(&self) -> Option<Time> {
        let times = [self.runs.next_wake(), self.restarts.next()];
        times.into_iter().flatten().min()
    }

    /// When a run may be planned, by what is being done about it; none while it is being reserved.
    pub(super) fn ready_at(&self, run: &GangRun) -> Option<Time> {
        let work = self.runs.get(&run.gang).filter(|work| work.run == *run);
        match work {
            Some(work) => work.reserving.is_none().then_some(work.retry_at),
            None => Some(Time::default()),
        }
    }

    /// Whether places for a gang are being reserved.
    pub(super) fn is_reserving(&self, gang: &GangId) -> bool {
        let work = self.runs.get(gang);
        work.is_some_and(|work| work.reserving.is_some())
    }

    /// The places that are being reserved for this very run; none if there are none.
    pub(super) fn places_reserved(&self, run: &GangRun) -> Option<&[TaskPlacement]> {
        let work = self.runs.get(&run.gang).filter(|work| work.run == *run)?;
        Some(&work.reserving.as_ref()?.members)
    }

    /// Gangs that wait, and whose places are being reserved.
    pub(super) fn reserving<'s, 'a: 's>(
        &'s self,
        state: &'a VcState,
    ) -> impl Iterator<Item = Current<'a>> + use<'s, 'a> {
        let reserving = self.runs.reserving().filter_map(|gang| state.current(gang));
        reserving.filter(|current| current.gang.phase == GangPhase::Waiting)
    }

    /// Where a task of a gang stands that has this place.
    pub(super) fn standing(&self, gang: &GangId, place: &TaskPlacement) -> Option<&TaskStanding> {
        self.runs.get(gang)?.standing(place)
    }

    /// This node leads from now on: every gang that may run is looked at.
    pub(super) fn lead(&mut self, parts: &mut GangContext<'_>) {
        let live = parts.context.state.live();
        let live: Vec<GangId> = live.map(|current| current.run.gang).collect();
        for gang in live {
            self.steer(&gang, parts);
        }
        self.restarts.overlap(&mut self.runs, parts);
    }

    /// Something of a job was committed.
    pub(super) fn job_changed(&mut self, job: JobId, parts: &mut GangContext<'_>) {
        let state = parts.context.state;
        for current in state.gangs_of(job) {
            if current.gang.phase == GangPhase::Waiting {
                parts.planner.add(current.run.gang);
            }
        }
        let known = self.runs.of_job(job);
        // One that never was reserved may have a claim, or a number at least.
        let known = known.chain(parts.inventory.gangs_of(job)).cloned();
        let gangs = state.gangs_of(job).filter(|current| current.gang.is_live());
        let gangs: BTreeSet<GangId> = known.chain(gangs.map(|current| current.run.gang)).collect();
        for gang in gangs {
            self.steer(&gang, parts);
        }
    }

    /// Looks at every gang whose time has come.
    pub(super) fn wake(&mut self, parts: &mut GangContext<'_>) {
        while let Some(gang) = self.runs.take_due(parts.context.now) {
            self.steer(&gang, parts);
        }
    }

    /// All that holds on the node by a lease that is over after `for_ms` has ended.
    pub(super) fn silent(&mut self, node: &NodeId, for_ms: u64, parts: &mut GangContext<'_>) {
        restart::silent(node, for_ms, &mut self.runs, parts);
    }

    /// All that was on the node has ended, says an admin.
    pub(super) fn off(&mut self, node: &NodeId, parts: &mut GangContext<'_>) {
        restart::off(node, &mut self.runs, parts);
    }

    /// Jobs that want it so do not wait for nodes that cannot be reached.
    pub(super) fn overlap(&mut self, parts: &mut GangContext<'_>) {
        self.restarts.overlap(&mut self.runs, parts);
    }

    /// Once more, where not all could be started anew at the same time.
    pub(super) fn overlap_again(&mut self, parts: &mut GangContext<'_>) {
        self.restarts.overlap_again(&mut self.runs, parts);
    }

    /// Checks that nodes and gangs know of each other.
    ///
    /// # Errors
    /// Which do not, as a sentence.
    pub(super) fn audit(&self) -> Result<(), String> {
        self.runs.audit()
    }
}
