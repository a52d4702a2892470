//! The next round of a gang that is placed: members that cannot start where they are get other places in it.

use muster_model::exit::Cause;
use muster_model::id::NodeId;

use super::lost::{LivenessView, reasons};
use super::work::{Relocation, RunWork};
use super::{GangContext, GangSteering};
use crate::gang::GangRun;
use crate::order::{GangCommand, RunMember};
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, some_of};

impl GangSteering {
    /// Why other places are looked for, if they are, for people.
    pub(in crate::coordinator) fn why_relocated(
        &self,
        current: &Current<'_>,
        sight: LivenessView<'_>,
    ) -> Option<String> {
        let work = self.runs.get(&current.run.gang)?;
        if !matches!(work.relocation, Relocation::Since(_)) {
            return None;
        }
        let lost = sight.lost(work, current);
        let names = lost.iter().map(|lost| lost.member.task.to_string());
        let names = some_of(names, ", ");
        Some(format!(
            "another place is looked for, for {names}: {}",
            reasons(&lost)
        ))
    }

    /// Whether other places are to be looked for, for any gang.
    pub(in crate::coordinator) fn wants_other_places(&self) -> bool {
        self.relocations.is_wanted()
    }

    /// Looks for places for all that need some, on cells that are up to date.
    pub(in crate::coordinator) fn relocate_all(&mut self, parts: &mut GangContext<'_>) {
        for gang in self.relocations.take_wanted() {
            let current = parts.context.state.current(&gang);
            let current = current.filter(|it| matches!(it.gang.phase, GangPhase::Placed { .. }));
            let find = |current| self.relocations.find(current, &mut self.runs, parts);
            if current.as_ref().is_some_and(find) {
                self.steer(&gang, parts);
            }
        }
    }

    /// The gang is in another round by now. Members that had another place in the round before are
    /// stopped there.
    pub(super) fn turn(&mut self, current: &Current<'_>, parts: &mut GangContext<'_>) {
        let gang = &current.run.gang;
        let is_next = |next: &RunWork| next.run == current.run;
        if !self.runs.next(gang).is_some_and(is_next) {
            return self.forget(gang, parts);
        }
        parts.planner.add(gang.clone());
        let Some((before, work)) = self.runs.advance(gang) else {
            return;
        };
        let instead = work.reserving.take().and_then(|it| it.instead);
        let left = instead.map(|instead| instead.left).unwrap_or_default();
        if let Some(before) = before {
            stop_left(&before, left, parts);
        }
    }
}

/// Who comes to know of it late, or never, is asked what it has as long as it may have something.
fn stop_left(run: &GangRun, left: Vec<(NodeId, RunMember)>, parts: &mut GangContext<'_>) {
    for (node, member) in left {
        let command = GangCommand::Stop {
            members: vec![member],
            cause: Cause::AttemptCompleted,
            grace_ms: parts.context.options.policy.stop_grace_ms,
        };
        parts.send(&node, run, command);
        parts.nodes.set_unsettled(&node, true);
    }
}
