//! What is decided of gangs: who is reserved, and who has to give way.

use std::collections::BTreeSet;

use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::time::Time;
use muster_placement::gang::GangNumber as Number;

use super::reserve::{Reserved, reserve, steer_reserving};
use super::work::Proposal;
use super::{GangContext, GangSteering};
use crate::coordinator::planner::PlannedStep;
use crate::gang::{GangId, GangRun};
use crate::vc::Current;
use crate::vc::attempt::GangPhase;

impl GangSteering {
    /// Does what was decided of a waiting gang.
    pub(in crate::coordinator) fn carry_out(
        &mut self,
        current: &Current<'_>,
        step: PlannedStep,
        parts: &mut GangContext<'_>,
    ) {
        for victim in step.evict {
            self.evict(victim, current, parts);
        }
        let Some(plan) = step.reserve else {
            return;
        };
        let gang = &current.run.gang;
        if reserve(current, &plan, &mut self.runs, parts) {
            return self.steer(gang, parts);
        }
        // A device of the plan is not reported any more; the next report tells more.
        parts.inventory.end(gang);
    }

    /// Sees to it that a gang gives way for one of the same virtual cluster. Asked again with every plan until
    /// it is gone.
    fn evict(&mut self, victim: Number, by: &Current<'_>, parts: &mut GangContext<'_>) {
        let known = parts.inventory.known(victim);
        let known = known.map(|known| known.run.clone());
        let current = known.as_ref();
        let current = current.and_then(|run| parts.context.state.current(&run.gang));
        let Some(current) = current.filter(|current| Some(&current.run) == known.as_ref()) else {
            return;
        };
        match current.gang.phase {
            GangPhase::Waiting => self.call_off(&current, victim, parts),
            GangPhase::Placed { .. } | GangPhase::Going => {
                let by = by.job.accepted.key.clone();
                self.runs
                    .stop(&current.run, Cause::Preempted, Some(by), parts);
            }
            GangPhase::Stopping { .. } | GangPhase::Voiding | GangPhase::Ended => {}
        }
    }

    /// Ends a reservation that is not proposed to be committed yet.
    fn call_off(&mut self, current: &Current<'_>, victim: Number, parts: &mut GangContext<'_>) {
        let gang = &current.run.gang;
        let work = self.runs.get(gang);
        let is_open = work
            .is_some_and(|work| work.reserving.is_some() && !work.is_proposed(&Proposal::Placed));
        if is_open {
            let retry_at = self.give_up(&current.run, parts);
            parts.inventory.withdraw(victim);
            self.runs.wake_at(gang, Some(retry_at));
        }
    }

    /// Sends the reservations of a gang that waits, or gives its plan up.
    pub(super) fn steer_waiting(
        &mut self,
        current: &Current<'_>,
        parts: &mut GangContext<'_>,
    ) -> Option<Time> {
        match steer_reserving(current, &mut self.runs, parts) {
            Reserved::LookAgain(at) => at,
            Reserved::Refused => Some(self.give_up(&current.run, parts)),
        }
    }

    /// A placement was refused because the virtual cluster has given a cell of it back meanwhile.
    pub(in crate::coordinator) fn not_own(&mut self, run: &GangRun, parts: &mut GangContext<'_>) {
        let Some(work) = self.runs.of_mut(run) else {
            return;
        };
        if work.proposed.remove(&Proposal::Placed).is_some() {
            let retry_at = self.give_up(run, parts);
            self.runs.wake_at(&run.gang, Some(retry_at));
        }
    }

    /// Frees what was reserved for a run. When it may be tried again.
    fn give_up(&mut self, run: &GangRun, parts: &mut GangContext<'_>) -> Time {
        match self.runs.next(&run.gang).is_some() {
            true => self.relocations.give_up(run, &mut self.runs, parts),
            false => self.reservations.give_up(run, &mut self.runs, parts),
        }
    }

    /// Some nodes cannot be reached now, or can be again. Nobody waits for an answer that may never come,
    /// but where something may be running.
    pub(in crate::coordinator) fn look_elsewhere(
        &mut self,
        before: &BTreeSet<NodeId>,
        parts: &mut GangContext<'_>,
    ) {
        let state = parts.context.state;
        let is_going = |gang: &&GangId| {
            let current = state.current(gang);
            current.is_some_and(|current| current.gang.phase == GangPhase::Going)
        };
        let changed = parts.liveness.unreachable().symmetric_difference(before);
        let linked = changed.flat_map(|node| self.runs.linked_to(node));
        let gangs = linked.filter(|gang| !is_going(gang));
        let gangs: BTreeSet<GangId> = gangs.cloned().collect();
        for gang in gangs {
            self.steer(&gang, parts);
        }
    }

    /// Has runs give way that are on cells which another virtual cluster was promised.
    pub(in crate::coordinator) fn vacate(&mut self, runs: &[GangRun], parts: &mut GangContext<'_>) {
        for run in runs {
            let current = parts.context.state.current(&run.gang);
            let current = current.filter(|current| current.run == *run);
            let is_placed = |it: &Current<'_>| {
                matches!(it.gang.phase, GangPhase::Placed { .. } | GangPhase::Going)
            };
            if current.is_some_and(|it| is_placed(&it)) {
                self.runs.stop(run, Cause::Preempted, None, parts);
            }
        }
    }
}
