//! What becomes of tasks on nodes of which nothing is heard, or which are said to be off.

use std::collections::BTreeSet;

use muster_model::id::NodeId;
use muster_model::job::Partition;
use muster_model::time::Time;

use super::launching::{live_members, live_places};
use super::planning::Due;
use super::work::Proposal;
use super::{Coordinator, Output};
use crate::gang::Run;
use crate::lease::Lease;
use crate::order::Member;
use crate::vc::attempt::Phase;
use crate::vc::{Current, End, Entry, VcState};

/// A task of a run, and its node.
type Task = (Run, NodeId, Member);

impl Coordinator {
    /// The nodes that tasks of the virtual cluster may be running on.
    pub fn nodes_in_use(&self, state: &VcState) -> BTreeSet<NodeId> {
        let places = state.live().flat_map(|current| live_places(&current));
        let nodes: BTreeSet<&NodeId> = places.map(|place| &place.node).collect();
        nodes.into_iter().cloned().collect()
    }

    /// Forgets nodes that are no members any more, but for those that tasks may still be on.
    pub(super) fn left(&mut self, state: &VcState, nodes: &BTreeSet<NodeId>) {
        let in_use = self.nodes_in_use(state);
        let known = |node: &&NodeId| self.nodes.contains(node) && !in_use.contains(*node);
        let gone: Vec<NodeId> = nodes.iter().filter(known).cloned().collect();
        for node in gone {
            self.nodes.remove(&node);
            self.inventory.forget_node(&node);
            self.plan.due(Due::All);
        }
    }

    /// For how many milliseconds the node must have been silent for the first of the leases on it
    /// to be over; none if that is more than it was silent.
    pub fn overdue(&self, state: &VcState, node: &NodeId, silence_ms: u64) -> Option<u64> {
        let leases = state.live().filter_map(|current| {
            let lost_ms = current.gang.lease?.lost_ms();
            (lost_ms <= silence_ms && is_on(&current, node)).then_some(lost_ms)
        });
        leases.min()
    }

    /// The lease that a gang is placed with: that of the round before, if it is placed in one, for who keeps
    /// its place keeps its lease.
    pub(super) fn lease_of(&self, current: &Current<'_>) -> Option<Lease> {
        if current.gang.is_live() {
            return current.gang.lease;
        }
        match current.job.accepted.spec.partition {
            Partition::FailoverAfter { seconds } => self.leases.then_some(Lease { seconds }),
            Partition::Hold | Partition::Overlap => None,
        }
    }

    /// All that holds on the node by a lease that is over after `for_ms` has ended.
    pub(super) fn silent(
        &mut self,
        state: &VcState,
        node: &NodeId,
        for_ms: u64,
        out: &mut Vec<Output>,
    ) {
        let over = |current: &Current<'_>, on: &NodeId| {
            let lease = current.gang.lease;
            on == node && lease.is_some_and(|lease| lease.lost_ms() <= for_ms)
        };
        let tasks = tasks(state, over);
        self.restart(state, tasks, &End::Lost, out);
    }

    /// All that was on the node has ended, says an admin.
    pub(super) fn off(&mut self, state: &VcState, node: &NodeId, out: &mut Vec<Output>) {
        let tasks = tasks(state, |_, on| on == node);
        self.give_up_tasks(tasks, &End::Off, out);
    }

    /// Whether runs may hold by leases from now on, and jobs go on without silent nodes.
    pub(super) fn allow_leases(&mut self, state: &VcState, leases: bool, out: &mut Vec<Output>) {
        let is_news = std::mem::replace(&mut self.leases, leases) != leases;
        if is_news && self.leads {
            self.overlap(state, out);
        }
    }

    /// Jobs that want it so do not wait for nodes that cannot be reached. Where the voters are too few
    /// for leases they wait like all others: there a node that is silent is half of the cluster or more,
    /// and may as well be the one that serves its users.
    pub(super) fn overlap(&mut self, state: &VcState, out: &mut Vec<Output>) {
        self.overlap_at = None;
        if self.unreachable.is_empty() || !self.leases {
            return;
        }
        let wants = |current: &Current<'_>, on: &NodeId| {
            let partition = current.job.accepted.spec.partition;
            partition == Partition::Overlap && self.unreachable.contains(on)
        };
        let tasks = tasks(state, wants);
        let all = self.restart(state, tasks, &End::Overlapped, out);
        self.overlap_at = (!all).then(|| self.losses.next_turn());
    }

    /// Once more, where not all could be started anew at the same time.
    pub(super) fn overlap_again(&mut self, state: &VcState, out: &mut Vec<Output>) {
        if self.overlap_at.is_some_and(|at| at <= self.now) {
            self.overlap(state, out);
        }
    }

    /// Gives up tasks of nodes that said nothing, so that their gangs start anew: all, or after a
    /// mass failure one gang after the other. False if some are left, which are to be asked for
    /// again.
    fn restart(
        &mut self,
        state: &VcState,
        tasks: Vec<Task>,
        end: &End,
        out: &mut Vec<Output>,
    ) -> bool {
        if self.limited_until().is_none() {
            self.give_up_tasks(tasks, end, out);
            return true;
        }
        // What is ending already has had its turn, on whichever of its nodes.
        let is_ending = |(run, _, member): &Task| {
            let phase = state.current(&run.gang).map(|current| current.gang.phase);
            let given_up = Proposal::Ended(member.uid.clone());
            let work = self.work.get(&run.gang);
            matches!(phase, Some(Phase::Stopping { .. }))
                || work.is_some_and(|work| work.proposed.contains(&given_up))
        };
        let (ending, tasks): (Vec<_>, Vec<_>) = tasks.into_iter().partition(is_ending);
        self.give_up_tasks(ending, end, out);
        let Some((first, ..)) = tasks.first().cloned() else {
            return true;
        };
        if !self.losses.take_turn(self.now) {
            return false;
        }
        let (turn, later): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|(run, ..)| *run == first);
        self.give_up_tasks(turn, end, out);
        later.is_empty()
    }

    fn limited_until(&self) -> Option<Time> {
        let known = self.nodes.ids().chain(self.losses.nodes());
        let known: BTreeSet<&NodeId> = known.collect();
        self.losses.limited_until(self.now, known.len())
    }

    /// That many nodes were lost at once, as a sentence for people.
    pub(super) fn mass_failure(&self) -> Option<String> {
        let until = self.limited_until()?;
        let minutes = until.micros_since(self.now).div_ceil(60_000_000);
        let count = self.losses.nodes().count();
        Some(format!(
            "{count} machines cannot be reached, many of which were lost at once: for {minutes} more \
             minutes their jobs start anew one after the other only; `muster cluster off` does it at \
             once for a machine that is off"
        ))
    }

    /// What was not started on nodes that cannot be reached, or do not answer, never will be: nobody waits
    /// for it. When the next of them has not answered in time.
    pub(super) fn leave_behind(
        &mut self,
        current: &Current<'_>,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        if self.options.generation > 1 {
            // That it was started may be among what was lost.
            return None;
        }
        let gang = &current.run.gang;
        self.note_silent(gang, out);
        let work = self.work.get(gang)?;
        let is_away = |node: &NodeId| {
            let link = work.links.get(node);
            self.unreachable.contains(node) || link.is_some_and(|link| self.is_mute(node, link))
        };
        let members = live_members(current).into_iter();
        let members = members.filter(|(node, _)| is_away(node));
        let tasks = members.map(|(node, member)| (current.run.clone(), node, member));
        let tasks = tasks.collect();
        let answers_by = work.answers_by(self.options.policy.round_timeout_ms);
        self.give_up_tasks(tasks, &End::NotStarted, out);
        answers_by
    }

    fn give_up_tasks(&mut self, tasks: Vec<Task>, end: &End, out: &mut Vec<Output>) {
        for (run, node, Member { task, uid }) in tasks {
            // It tells what became of them when it is back.
            self.nodes.set_unsettled(&node, true);
            let gang = run.gang.clone();
            let entry = Entry::TaskEnded {
                run,
                task,
                uid: uid.clone(),
                end: end.clone(),
                at_ms: self.wall.as_millis(),
            };
            self.propose(&gang, Proposal::Ended(uid), entry, out);
        }
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

fn is_on(current: &Current<'_>, node: &NodeId) -> bool {
    live_places(current).any(|place| place.node == *node)
}
