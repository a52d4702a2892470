//! What becomes of tasks on nodes of which nothing is heard, or which are said to be off.

use muster_model::id::NodeId;
use muster_model::job::Partition;
use muster_model::time::Time;

use super::parts::GangContext;
use super::runs::GangRuns;
use super::work::Proposal;

use crate::coordinator::places::live_members;
use crate::gang::GangRun;
use crate::order::RunMember;
use crate::vc::attempt::GangPhase;
use crate::vc::{Current, TaskEnd, VcEntry, VcState};

/// A task of a run, and its node.
type Task = (GangRun, NodeId, RunMember);

/// Gangs that do not wait for silent nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct Restarts {
    /// When another gang that does not wait for silent nodes may be started anew.
    overlap_at: Option<Time>,
}

impl Restarts {
    /// When another gang may be started anew.
    pub(super) const fn next(&self) -> Option<Time> {
        self.overlap_at
    }

    /// Jobs that want it so do not wait for nodes that cannot be reached. Where the voters are too few
    /// for leases they wait like all others: there a node that is silent is half of the cluster or more,
    /// and may as well be the one that serves its users.
    pub(super) fn overlap(&mut self, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
        self.overlap_at = None;
        let unreachable = parts.liveness.unreachable();
        if unreachable.is_empty() || !parts.liveness.allows_leases() {
            return;
        }
        let wants = |current: &Current<'_>, on: &NodeId| {
            let partition = current.job.accepted.spec.partition;
            partition == Partition::Overlap && unreachable.contains(on)
        };
        let tasks = tasks(parts.context.state, wants);
        let all = restart(tasks, &TaskEnd::Overlapped, runs, parts);
        self.overlap_at = (!all).then(|| parts.liveness.next_turn());
    }

    /// Once more, where not all could be started anew at the same time.
    pub(super) fn overlap_again(&mut self, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
        if self.overlap_at.is_some_and(|at| at <= parts.context.now) {
            self.overlap(runs, parts);
        }
    }
}

/// All that holds on the node by a lease that is over after `for_ms` has ended.
pub(super) fn silent(node: &NodeId, for_ms: u64, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
    let over = |current: &Current<'_>, on: &NodeId| {
        let lease = current.gang.lease;
        on == node && lease.is_some_and(|lease| lease.lost_ms() <= for_ms)
    };
    let tasks = tasks(parts.context.state, over);
    restart(tasks, &TaskEnd::Lost, runs, parts);
}

/// All that was on the node has ended, says an admin.
pub(super) fn off(node: &NodeId, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
    let tasks = tasks(parts.context.state, |_, on| on == node);
    give_up_tasks(tasks, &TaskEnd::Off, runs, parts);
}

/// Gives up tasks of nodes that said nothing, so that their gangs start anew: all, or after a
/// mass failure one gang after the other. False if some are left, which are to be asked for
/// again.
fn restart(
    tasks: Vec<Task>,
    end: &TaskEnd,
    runs: &mut GangRuns,
    parts: &mut GangContext<'_>,
) -> bool {
    let now = parts.context.now;
    if parts.liveness.limited_until(now, parts.nodes).is_none() {
        give_up_tasks(tasks, end, runs, parts);
        return true;
    }
    let state = parts.context.state;
    // What is ending already has had its turn, on whichever of its nodes.
    let is_ending = |(run, _, member): &Task| {
        let phase = state.current(&run.gang).map(|current| current.gang.phase);
        let given_up = Proposal::Ended(member.uid.clone());
        let work = runs.get(&run.gang);
        matches!(phase, Some(GangPhase::Stopping { .. }))
            || work.is_some_and(|work| work.is_proposed(&given_up))
    };
    let (ending, tasks): (Vec<_>, Vec<_>) = tasks.into_iter().partition(is_ending);
    give_up_tasks(ending, end, runs, parts);
    let Some((first, ..)) = tasks.first().cloned() else {
        return true;
    };
    if !parts.liveness.take_turn(now) {
        return false;
    }
    let (turn, later): (Vec<_>, Vec<_>) = tasks.into_iter().partition(|(run, ..)| *run == first);
    give_up_tasks(turn, end, runs, parts);
    later.is_empty()
}

/// What was not started on nodes that cannot be reached, or do not answer, never will be: nobody waits
/// for it. When the next of them has not answered in time.
pub(super) fn leave_behind(
    current: &Current<'_>,
    runs: &mut GangRuns,
    parts: &mut GangContext<'_>,
) -> Option<Time> {
    if parts.context.is_recovered() {
        // That it was started may be among what was lost.
        return None;
    }
    let gang = &current.run.gang;
    runs.note_silent(gang, parts);
    let work = runs.get(gang)?;
    let is_away = |node: &NodeId| {
        let link = work.links.get(node);
        parts.liveness.is_unreachable(node)
            || link.is_some_and(|link| parts.sight().is_mute(node, link))
    };
    let members = live_members(current).into_iter();
    let members = members.filter(|(node, _)| is_away(node));
    let tasks = members.map(|(node, member)| (current.run.clone(), node, member));
    let tasks = tasks.collect();
    let answers_by = work.answers_by(parts.context.options.policy.round_timeout_ms);
    give_up_tasks(tasks, &TaskEnd::NotStarted, runs, parts);
    answers_by
}

fn give_up_tasks(
    tasks: Vec<Task>,
    end: &TaskEnd,
    runs: &mut GangRuns,
    parts: &mut GangContext<'_>,
) {
    for (run, node, RunMember { task, uid }) in tasks {
        // It tells what became of them when it is back.
        parts.nodes.set_unsettled(&node, true);
        let gang = run.gang.clone();
        let entry = VcEntry::TaskEnded {
            run,
            task,
            uid: uid.clone(),
            end: end.clone(),
            at_ms: parts.context.wall.as_millis(),
        };
        runs.propose(&gang, Proposal::Ended(uid), entry, parts.out);
    }
}

/// The live tasks that a rule picks, by gang and node.
fn tasks(state: &VcState, picks: impl Fn(&Current<'_>, &NodeId) -> bool) -> Vec<Task> {
    let mut found = Vec::new();
    for current in state.live() {
        let members = live_members(&current).into_iter();
        let picked = members.filter(|(node, _)| picks(&current, node));
        found.extend(picked.map(|(node, member)| (current.run.clone(), node, member)));
    }
    found
}
