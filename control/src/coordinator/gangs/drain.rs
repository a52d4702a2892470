//! Gangs that have to leave nodes which admins keep free.

use muster_model::exit::Cause;

use super::{GangContext, GangSteering};
use crate::gang::GangId;
use crate::vc::Current;

impl GangSteering {
    /// Looks at the gangs on nodes that are to be empty by now. What is placed there later, by a
    /// plan from before, is looked at when it is steered.
    pub(in crate::coordinator) fn drain(&mut self, parts: &mut GangContext<'_>) {
        let wall = parts.context.wall;
        if !parts.liveness.take_drain(wall) {
            return;
        }
        let live = parts.context.state.live();
        let leaving = live.filter(|current| parts.liveness.must_leave(current, wall));
        let leaving: Vec<GangId> = leaving.map(|current| current.run.gang).collect();
        for gang in leaving {
            self.steer(&gang, parts);
        }
    }

    /// Ends a gang that is on a node which is to be empty: it waits for another turn, elsewhere.
    pub(super) fn leave(&mut self, current: &Current<'_>, parts: &mut GangContext<'_>) {
        if !parts.liveness.must_leave(current, parts.context.wall) {
            return;
        }
        self.runs.begin(&current.run);
        self.runs.stop(&current.run, Cause::Drained, None, parts);
    }
}
