//! The runs in hand: which they are, which nodes have to do with them, and when each is to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::{JobKey, NodeId};
use muster_model::time::Time;

use super::link::{GangLink, OrderKind};
use super::parts::GangContext;
use super::work::{Proposal, RunWork};
use crate::coordinator::output::CoordinatorOutput;
use crate::gang::{GangId, GangRun, JobId};
use crate::order::GangCommand;
use crate::vc::VcEntry;

/// Whom an order goes to, and what its gang's phase calls for.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderTarget<'a> {
    pub(super) run: &'a GangRun,
    pub(super) node: &'a NodeId,
    pub(super) kind: OrderKind,
}

/// The runs in hand.
#[derive(Clone, Debug, Default)]
pub(super) struct GangRuns {
    /// The run that each gang is in.
    current: BTreeMap<GangId, RunWork>,
    /// The next rounds of gangs some of whose members need other places.
    next: BTreeMap<GangId, RunWork>,
    /// The gangs that a node was sent orders for; some of them may be over.
    linked: BTreeMap<NodeId, BTreeSet<GangId>>,
    wakes: BTreeSet<(Time, GangId)>,
}

impl GangRuns {
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// The run that a gang is in, if it is in hand.
    pub(super) fn get(&self, gang: &GangId) -> Option<&RunWork> {
        self.current.get(gang)
    }

    pub(super) fn get_mut(&mut self, gang: &GangId) -> Option<&mut RunWork> {
        self.current.get_mut(gang)
    }

    /// The gangs whose places are being reserved.
    pub(super) fn reserving(&self) -> impl Iterator<Item = &GangId> {
        let reserving = self
            .current
            .iter()
            .filter(|(_, work)| work.reserving.is_some());
        reserving.map(|(gang, _)| gang)
    }

    /// The next round of a gang, if one is being reserved.
    pub(super) fn next(&self, gang: &GangId) -> Option<&RunWork> {
        self.next.get(gang)
    }

    /// What is being done about this very run.
    pub(super) fn of(&self, run: &GangRun) -> Option<&RunWork> {
        let own = |work: &&RunWork| work.run == *run;
        let current = self.current.get(&run.gang).filter(own);
        current.or_else(|| self.next.get(&run.gang).filter(own))
    }

    pub(super) fn of_mut(&mut self, run: &GangRun) -> Option<&mut RunWork> {
        let own = |work: &&mut RunWork| work.run == *run;
        let current = self.current.get_mut(&run.gang).filter(own);
        current.or_else(|| self.next.get_mut(&run.gang).filter(own))
    }

    /// The gangs of a job that are in hand.
    pub(super) fn of_job(&self, job: JobId) -> impl Iterator<Item = &GangId> {
        let first = GangId { job, task: None };
        let gangs = self.current.range(first..).map(|(gang, _)| gang);
        gangs.take_while(move |gang| gang.job == job)
    }

    /// The gangs that a node has to do with, or had.
    pub(super) fn linked_to(&self, node: &NodeId) -> impl Iterator<Item = &GangId> {
        self.linked.get(node).into_iter().flatten()
    }

    /// Takes a run in hand.
    pub(super) fn begin(&mut self, run: &GangRun) -> &mut RunWork {
        let work = self.current.entry(run.gang.clone());
        work.or_insert_with(|| RunWork::new(run.clone()))
    }

    /// Takes the next round of a gang in hand.
    pub(super) fn begin_next(&mut self, run: &GangRun) -> &mut RunWork {
        let work = self.next.entry(run.gang.clone());
        work.or_insert_with(|| RunWork::new(run.clone()))
    }

    /// What is between the leader and a node about a run, from now on if there was nothing.
    fn link(&mut self, target: &OrderTarget<'_>, now: Time) -> Option<&mut GangLink> {
        let OrderTarget { run, node, kind } = *target;
        let is_new = !self.of(run)?.links.contains(node);
        if is_new {
            let linked = self.linked.entry(node.clone()).or_default();
            linked.insert(run.gang.clone());
            let links = &mut self.of_mut(run)?.links;
            links.insert(node.clone(), GangLink::new(kind, now));
        }
        self.of_mut(run)?.links.get_mut(node)
    }

    /// Proposes an entry about a gang's run, unless that was done in this term.
    pub(super) fn propose(
        &mut self,
        gang: &GangId,
        what: Proposal,
        entry: VcEntry,
        out: &mut Vec<CoordinatorOutput>,
    ) {
        let work = self.current.get_mut(gang);
        if work.is_some_and(|work| work.propose(what)) {
            out.push(CoordinatorOutput::Propose(Box::new(entry)));
        }
    }

    /// Has a run that is placed or going end for this; if it is preempted, for whom.
    pub(super) fn stop(
        &mut self,
        run: &GangRun,
        cause: Cause,
        by: Option<JobKey>,
        parts: &mut GangContext<'_>,
    ) {
        let entry = VcEntry::Stopping {
            run: run.clone(),
            cause,
            by,
            at_ms: parts.context.wall.as_millis(),
        };
        self.propose(&run.gang, Proposal::Stopping, entry, parts.out);
    }

    /// Sends an order if it is due; says when to look again while it is not answered.
    pub(super) fn order(
        &mut self,
        target: &OrderTarget<'_>,
        command: impl FnOnce() -> GangCommand,
        parts: &mut GangContext<'_>,
    ) -> Option<Time> {
        let OrderTarget { run, node, kind } = *target;
        let (options, now) = (parts.context.options, parts.context.now);
        let policy = &options.policy;
        let link = self.link(target, now)?;
        let due = link.due(kind, policy.resend_ms, policy.resend_max_ms)?;
        if due > now {
            return Some(due);
        }
        if !parts.nodes.contains(node) {
            // Its next report brings the gang back here.
            return None;
        }
        let seq = parts.send(node, run, command());
        link.sent(now, kind, seq);
        link.due(kind, policy.resend_ms, policy.resend_max_ms)
    }

    /// Nodes that have let an order for a gang wait for too long are mute.
    pub(super) fn note_silent(&mut self, gang: &GangId, parts: &mut GangContext<'_>) {
        let patience_ms = parts.context.options.policy.round_timeout_ms;
        if let Some(work) = self.current.get_mut(gang) {
            parts.mute(work.note_silent(parts.context.now, patience_ms));
        }
    }

    /// Lets go of the run that a gang was in.
    pub(super) fn forget(&mut self, gang: &GangId) {
        self.wake_at(gang, None);
        let links = self.current.remove(gang).map(|work| work.links);
        for node in links.unwrap_or_default().keys() {
            if let Some(linked) = self.linked.get_mut(node) {
                linked.remove(gang);
            }
        }
    }

    /// Lets go of the next round of a gang.
    pub(super) fn forget_next(&mut self, gang: &GangId) {
        self.next.remove(gang);
    }

    /// The gang is in its next round by now: gives the round before, if that was in hand, and the one that is
    /// the current one from now on.
    pub(super) fn advance(&mut self, gang: &GangId) -> Option<(Option<GangRun>, &mut RunWork)> {
        let before = self.current.get_mut(gang);
        let before = before.map(|work| (work.run.clone(), std::mem::take(&mut work.shunned)));
        self.forget(gang);
        let mut next = self.next.remove(gang)?;
        let (before, shunned) = before.unzip();
        next.shunned = shunned.unwrap_or_default();
        for node in next.links.keys() {
            let linked = self.linked.entry(node.clone()).or_default();
            linked.insert(gang.clone());
        }
        debug_assert!(next.wake.is_none(), "only the current round is woken");
        Some((before, self.current.entry(gang.clone()).or_insert(next)))
    }

    /// Sets when a gang is to be looked at next, instead of what was set before.
    pub(super) fn wake_at(&mut self, gang: &GangId, at: Option<Time>) {
        let Some(work) = self.current.get_mut(gang) else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut work.wake, at) {
            self.wakes.remove(&(old, gang.clone()));
        }
        if let Some(at) = at {
            self.wakes.insert((at, gang.clone()));
        }
    }

    /// When the first gang is to be looked at.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// A gang that is to be looked at by now.
    pub(super) fn take_due(&mut self, now: Time) -> Option<GangId> {
        if self.next_wake().is_none_or(|at| at > now) {
            return None;
        }
        let (at, gang) = self.wakes.pop_first()?;
        debug_assert_eq!(
            self.current.get(&gang).and_then(|work| work.wake),
            Some(at),
            "who is woken is in hand"
        );
        Some(gang)
    }

    /// The node may not know the orders of these runs: those that the rule picks of all that it has to do with.
    /// Gives their gangs.
    pub(super) fn doubt(
        &mut self,
        node: &NodeId,
        is_lost: impl Fn(&RunWork) -> bool,
    ) -> Vec<GangId> {
        let Some(mut linked) = self.linked.remove(node) else {
            return Vec::new();
        };
        let has_link = |gang: &GangId| {
            let works = [self.current.get(gang), self.next.get(gang)];
            let mut works = works.into_iter().flatten();
            works.any(|work| work.links.contains(node))
        };
        linked.retain(has_link);
        let mut doubted = Vec::new();
        for gang in &linked {
            let works = [self.current.get_mut(gang), self.next.get_mut(gang)];
            for work in works.into_iter().flatten().filter(|work| is_lost(work)) {
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

    /// Checks that the index of nodes names every node of a run, and that the order of waking has the
    /// times that the runs have.
    ///
    /// # Errors
    /// Which is not, as a sentence.
    pub(super) fn audit(&self) -> Result<(), String> {
        for (gang, work) in self.current.iter().chain(&self.next) {
            let is_linked = |node| self.linked.get(node).is_some_and(|it| it.contains(gang));
            if !work.links.keys().all(is_linked) {
                return Err(format!("{gang:?} has a node that does not have it"));
            }
        }
        let wake = |(gang, work): (&GangId, &RunWork)| Some((work.wake?, gang.clone()));
        let wakes: BTreeSet<(Time, GangId)> = self.current.iter().filter_map(wake).collect();
        match wakes == self.wakes {
            true => Ok(()),
            false => Err("the gangs that are to be woken are not as they say".to_owned()),
        }
    }
}
