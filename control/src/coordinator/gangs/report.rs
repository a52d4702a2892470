//! What nodes report of the tasks that they hold.

use std::collections::BTreeSet;

use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, NodeId};
use muster_model::launch::TaskPlacement;

use super::work::{Relocation, RunWork};
use super::{GangContext, GangSteering};
use crate::coordinator::nodes::ReportChanges;
use crate::coordinator::places::live_places;
use crate::gang::GangId;
use crate::order::{GangCommand, HeldTask, TaskStanding};
use crate::vc::VcState;
use crate::vc::attempt::GangPhase;

impl GangSteering {
    /// Takes which tasks of this virtual cluster a node holds. `has_strays`: it also has containers of which its
    /// ledger knows nothing.
    pub(in crate::coordinator) fn reported(
        &mut self,
        node: &NodeId,
        tasks: Vec<HeldTask>,
        (changes, has_strays): (ReportChanges, bool),
        parts: &mut GangContext<'_>,
    ) {
        let state = parts.context.state;
        let is_over = |task: &HeldTask| {
            let HeldTask { run, member, .. } = task;
            !state.is_live(run, &member.task, &member.uid) && !is_kept(state, node, task)
        };
        if !changes.is_old {
            let is_unsettled = has_strays || tasks.iter().any(is_over);
            parts.nodes.set_unsettled(node, is_unsettled);
            // Those that are there still are settled again below.
            parts.nodes.set_settling(node, false);
        }
        for task in &tasks {
            self.held(node, task, parts);
        }
        let held = tasks.into_iter();
        let held = held.map(|task| (task.run.gang, task.member.uid));
        let (mut touched, seen): (BTreeSet<GangId>, BTreeSet<AttemptUid>) = held.unzip();
        // After a restart the node may know no order; else none of a task that the report does not have.
        let is_lost =
            |work: &RunWork| changes.is_other_life || is_missing(state, work, node, &seen);
        touched.extend(self.runs.doubt(node, is_lost));
        for gang in touched {
            self.steer(&gang, parts);
        }
    }

    /// A node that was mute says something: who is waited for there may be well.
    pub(in crate::coordinator) fn heard_again(
        &mut self,
        node: &NodeId,
        parts: &mut GangContext<'_>,
    ) {
        let now = parts.context.now;
        let gangs: Vec<GangId> = self.runs.linked_to(node).cloned().collect();
        for gang in gangs {
            let Some(work) = self.runs.get_mut(&gang) else {
                continue;
            };
            if let Some(link) = work.links.get_mut(node) {
                link.heard(now);
            }
            if work.relocation != Relocation::NotNeeded {
                self.steer(&gang, parts);
            }
        }
    }

    /// Something may have come free: who gave a plan up may try again.
    pub(in crate::coordinator) fn try_again(&mut self, parts: &mut GangContext<'_>) {
        self.reservations.try_again(&mut self.runs, parts);
    }

    /// A task that the node holds: news of a live one, or something left to clear away.
    fn held(&mut self, node: &NodeId, task: &HeldTask, parts: &mut GangContext<'_>) {
        let HeldTask {
            run,
            member,
            standing,
            ..
        } = task;
        let state = parts.context.state;
        if state.is_live(run, &member.task, &member.uid) {
            return self.stands(node, task);
        }
        if is_kept(state, node, task) {
            return;
        }
        let members = vec![member.clone()];
        match standing {
            // Ours and not placed yet, or a former leader's: it ends by itself.
            TaskStanding::Reserved | TaskStanding::Gone => {}
            TaskStanding::Ended(_) => parts.settle(node, run, members),
            TaskStanding::Absent
            | TaskStanding::Starting
            | TaskStanding::Ready
            | TaskStanding::Running
            | TaskStanding::OnHold(_)
            | TaskStanding::Stopping
            | TaskStanding::Evicted => {
                let command = GangCommand::Stop {
                    members,
                    cause: Cause::AttemptCompleted,
                    grace_ms: parts.context.options.policy.stop_grace_ms,
                };
                parts.send(node, run, command);
            }
        }
    }

    /// Notes where a live task stands.
    fn stands(&mut self, node: &NodeId, task: &HeldTask) {
        let work = self.runs.get_mut(&task.run.gang);
        let work = work.filter(|work| work.run == task.run);
        let Some(link) = work.and_then(|work| work.links.get_mut(node)) else {
            return;
        };
        match &task.standing {
            // A report may be old. What only was so then is asked about again.
            TaskStanding::Reserved | TaskStanding::Absent | TaskStanding::Gone => link.doubt(),
            TaskStanding::Starting
            | TaskStanding::Ready
            | TaskStanding::Running
            | TaskStanding::OnHold(_)
            | TaskStanding::Stopping
            | TaskStanding::Evicted
            | TaskStanding::Ended(_) => link.stands(&task.member, &task.standing),
        }
    }
}

fn is_missing(state: &VcState, work: &RunWork, node: &NodeId, seen: &BTreeSet<AttemptUid>) -> bool {
    let Some(current) = state.current(&work.run.gang).filter(|c| c.run == work.run) else {
        return false;
    };
    live_places(&current).any(|place| place.node == *node && !seen.contains(&place.uid))
}

/// Whether a task is where it is to be in the round that its gang is in by now, for which the node has had
/// no Launch yet.
fn is_kept(state: &VcState, node: &NodeId, task: &HeldTask) -> bool {
    let HeldTask { run, member, .. } = task;
    let Some(current) = state.current(&run.gang) else {
        return false;
    };
    let is_earlier = current.run.attempt == run.attempt && current.run.round > run.round;
    let is_there = |place: &TaskPlacement| {
        let holding = task.holding.as_ref();
        place.task == member.task
            && place.node == *node
            && holding.is_none_or(|holding| holding.leaves == place.leaves)
    };
    let mut tasks = current.job.attempt.tasks_of(current.gang);
    is_earlier
        && matches!(current.gang.phase, GangPhase::Placed { .. })
        && !matches!(task.standing, TaskStanding::Ended(_))
        && tasks.any(|task| task.live().is_some_and(is_there))
}
