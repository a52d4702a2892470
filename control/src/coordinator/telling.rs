//! What nodes tell.

use std::collections::BTreeSet;

use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, NodeId};
use muster_model::launch::Placement;

use super::inventory::{ForeignTask, ForeignTasks};
use super::launching::live_places;
use super::planning::Due;
use super::work::Work;
use super::{Coordinator, Output};
use crate::gang::GangId;
use crate::order::{Command, HeldTask, Report, Standing, Tell};
use crate::vc::VcState;
use crate::vc::attempt::Phase;

/// After more refusals in a row than these nobody is hurried.
const HURRIED_MAX: u32 = 3;

impl Coordinator {
    pub(super) fn told(
        &mut self,
        state: &VcState,
        node: NodeId,
        tell: Tell,
        out: &mut Vec<Output>,
    ) {
        let was_mute = self.nodes.unmute(&node);
        if was_mute {
            self.plan.due(Due::All);
        }
        match tell {
            Tell::Answer(answer) => self.answered(state, &node, answer, out),
            Tell::Report(report) => self.reported(state, &node, *report, out),
        }
        if was_mute && self.leads {
            self.heard_again(state, &node, out);
        }
    }

    fn reported(
        &mut self,
        state: &VcState,
        node: &NodeId,
        mut report: Report,
        out: &mut Vec<Output>,
    ) {
        let has_strays = report.has_strays;
        let tasks = std::mem::take(&mut report.tasks).into_iter();
        let (own, others) = tasks.partition(|task| task.vc == self.options.vc);
        let every_ms = self.options.policy.report_ms;
        let changes = self.nodes.hear(self.now, node, every_ms, report);
        let others_differ = !changes.is_old && self.inventory.uses(node, in_use(others));
        if changes.is_other_capacity {
            self.plan.impossible.clear();
        }
        if others_differ || changes.is_other_mind || changes.is_other_capacity {
            self.plan.due(Due::All);
        }
        if !self.leads {
            return;
        }
        if others_differ || changes.is_other_life || changes.is_other_offer {
            self.try_again();
        }
        let is_over = |task: &HeldTask| {
            let HeldTask { run, member, .. } = task;
            !state.is_live(run, &member.task, &member.uid) && !is_kept(state, node, task)
        };
        if !changes.is_old {
            let is_unsettled = has_strays || own.iter().any(is_over);
            self.nodes.set_unsettled(node, is_unsettled);
            // Those that are there still are settled again below.
            self.nodes.set_settling(node, false);
        }
        for task in &own {
            self.held(state, node, task, out);
        }
        let held = own.into_iter().map(|task| (task.run.gang, task.member.uid));
        let (mut touched, seen): (BTreeSet<GangId>, BTreeSet<AttemptUid>) = held.unzip();
        touched.extend(self.doubt(state, node, changes.is_other_life, &seen));
        for gang in touched {
            self.steer(state, &gang, out);
        }
    }

    /// Something may have come free: whoever was refused need not wait for the end of its pause. Who
    /// was refused often may be one of two that are in each other's way: pauses set them apart.
    fn try_again(&mut self) {
        for gang in std::mem::take(&mut self.refused) {
            let Some(work) = self.work.get_mut(&gang) else {
                continue;
            };
            let is_seldom = work.refused <= HURRIED_MAX;
            if is_seldom && work.reserving.is_none() && work.retry_at > self.now {
                work.retry_at = self.now;
                self.plan.add(gang);
            }
        }
    }

    /// A task that the node holds: news of a live one, or something left to clear away.
    fn held(&mut self, state: &VcState, node: &NodeId, task: &HeldTask, out: &mut Vec<Output>) {
        let HeldTask {
            run,
            member,
            standing,
            ..
        } = task;
        if state.is_live(run, &member.task, &member.uid) {
            let Some(work) = self.work.get_mut(&run.gang).filter(|work| work.run == *run) else {
                return;
            };
            let Some(link) = work.links.get_mut(node) else {
                return;
            };
            match standing {
                // A report may be old. What only was so then is asked about again.
                Standing::Reserved | Standing::Absent | Standing::Gone => link.doubt(),
                Standing::Starting
                | Standing::Ready
                | Standing::Running
                | Standing::Stopping
                | Standing::Evicted
                | Standing::Ended(_) => link.stands(member, standing),
            }
            return;
        }
        if is_kept(state, node, task) {
            return;
        }
        let members = vec![member.clone()];
        match standing {
            // Ours and not placed yet, or a former leader's: it ends by itself.
            Standing::Reserved | Standing::Gone => {}
            Standing::Ended(_) => self.settle(node, run, members, out),
            Standing::Absent
            | Standing::Starting
            | Standing::Ready
            | Standing::Running
            | Standing::Stopping
            | Standing::Evicted => {
                let command = Command::Stop {
                    members,
                    cause: Cause::AttemptCompleted,
                    grace_ms: self.options.policy.stop_grace_ms,
                };
                self.send(node, run, command, out);
            }
        }
    }

    /// Finds the gangs whose orders the node may not know: after a restart all, else those
    /// with a live task that the report does not have.
    fn doubt(
        &mut self,
        state: &VcState,
        node: &NodeId,
        other_life: bool,
        seen: &BTreeSet<AttemptUid>,
    ) -> Vec<GangId> {
        let Some(mut linked) = self.linked.remove(node) else {
            return Vec::new();
        };
        let has_link = |gang: &GangId| {
            let works = [self.work.get(gang), self.mends.get(gang)];
            let mut works = works.into_iter().flatten();
            works.any(|work| work.links.contains(node))
        };
        linked.retain(has_link);
        let mut doubted = Vec::new();
        for gang in &linked {
            let works = [self.work.get_mut(gang), self.mends.get_mut(gang)];
            for work in works.into_iter().flatten() {
                if !other_life && !is_missing(state, work, node, seen) {
                    continue;
                }
                if let Some(link) = work.links.get_mut(node) {
                    link.doubt();
                    doubted.push(gang.clone());
                }
            }
        }
        if !linked.is_empty() {
            self.linked.insert(node.clone(), linked);
        }
        doubted
    }
}

fn is_missing(state: &VcState, work: &Work, node: &NodeId, seen: &BTreeSet<AttemptUid>) -> bool {
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
    let is_there = |place: &Placement| {
        let holding = task.holding.as_ref();
        place.task == member.task
            && place.node == *node
            && holding.is_none_or(|holding| holding.leaves == place.leaves)
    };
    let mut tasks = current.job.attempt.tasks_of(current.gang);
    is_earlier
        && matches!(current.gang.phase, Phase::Placed { .. })
        && !matches!(task.standing, Standing::Ended(_))
        && tasks.any(|task| task.live().is_some_and(is_there))
}

/// What tasks of other virtual clusters use. How far they have come is no matter here.
fn in_use(others: Vec<HeldTask>) -> ForeignTasks {
    let holding = |task: HeldTask| {
        let task_of_other = ForeignTask {
            vc: task.vc,
            run: task.run,
            holding: task.holding?,
        };
        Some((task.member.uid, task_of_other))
    };
    others.into_iter().filter_map(holding).collect()
}
