//! The next step of one gang, from its committed phase and its tasks' standings.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, JobKey, NodeId};
use muster_model::launch::Placement;
use muster_model::time::Time;

use super::launching::{Launch, live_places, member_of, places_by_node};
use super::mending::{Lost, is_mendable};
use super::work::{Kind, Link, Proposal, Work};
use super::{Coordinator, Output};
use crate::gang::{GangId, Run};
use crate::order::{Command, Member, Standing};
use crate::vc::attempt::Phase;
use crate::vc::{Current, End, Entry, VcState};

/// Whom an order goes to, and what its gang's phase calls for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) run: &'a Run,
    pub(super) node: &'a NodeId,
    pub(super) kind: Kind,
}

impl Coordinator {
    /// Looks at a gang and does what is due.
    pub(super) fn steer(&mut self, state: &VcState, gang: &GangId, out: &mut Vec<Output>) {
        self.settle_ended(state, gang, out);
        self.account(state, gang);
        let current = state
            .current(gang)
            .filter(|current| current.gang.phase != Phase::Ended);
        let Some(current) = current else {
            self.stop_mending(gang, out);
            return self.forget(gang);
        };
        let work = self.work.get(gang);
        if work.is_some_and(|work| work.run != current.run) {
            self.turn(&current, out);
        }
        if !matches!(current.gang.phase, Phase::Placed { .. }) {
            self.stop_mending(gang, out);
        }
        self.leave(&current, out);
        self.give_way(&current, out);
        let wake = match current.gang.phase {
            Phase::Waiting => self.steer_reserving(&current, out),
            Phase::Placed { .. } => self.steer_placed(&current, out),
            Phase::Going => self.steer_live(&current, Kind::Go, None, out),
            Phase::Stopping { cause } => self.steer_ending(&current, cause, out),
            Phase::Voiding => self.steer_ending(&current, Cause::AttemptCompleted, out),
            Phase::Ended => None,
        };
        self.wake_at(gang, wake);
    }

    /// Where a node evicts one of a gang, the others are told to end at once: they have their grace then, and
    /// mostly find no peer gone first.
    fn give_way(&mut self, current: &Current<'_>, out: &mut Vec<Output>) {
        let gang = &current.run.gang;
        let is_evicted = |work: &Work| {
            let mut places = live_places(current);
            places.any(|place| work.standing(place) == Some(&Standing::Evicted))
        };
        let is_live = matches!(current.gang.phase, Phase::Placed { .. } | Phase::Going);
        if is_live && self.work.get(gang).is_some_and(is_evicted) {
            self.stop_run(&current.run, Cause::Preempted, None, out);
        }
    }

    pub(super) fn forget(&mut self, gang: &GangId) {
        self.wake_at(gang, None);
        let links = self.work.remove(gang).map(|work| work.links);
        for node in links.unwrap_or_default().keys() {
            if let Some(linked) = self.linked.get_mut(node) {
                linked.remove(gang);
            }
        }
        self.plan.add(gang.clone());
    }

    /// Gives back in the cells what the gang has no longer.
    fn account(&mut self, state: &VcState, gang: &GangId) {
        let work = self.work.get(gang);
        let is_reserving = work.is_some_and(|work| work.reserving.is_some());
        let terms = self.terms();
        self.inventory.account(state, gang, is_reserving, &terms);
        let current = state.current(gang);
        if current.is_none_or(|current| current.gang.phase != Phase::Waiting) {
            self.forget_plans(gang);
        }
    }

    /// Tells nodes which exits they may forget: those that are committed.
    fn settle_ended(&mut self, state: &VcState, gang: &GangId, out: &mut Vec<Output>) {
        let Some(work) = self.work.get_mut(gang) else {
            return;
        };
        let run = work.run.clone();
        let current = state.current(gang).filter(|current| current.run == run);
        let places = current.iter().flat_map(live_places);
        let live: BTreeSet<&AttemptUid> = places.map(|place| &place.uid).collect();
        let mut settled: BTreeMap<NodeId, Vec<Member>> = BTreeMap::new();
        for (node, link) in work.links.iter_mut() {
            link.standing.retain(|member, standing| {
                let live = live.contains(&member.uid);
                if matches!(standing, Standing::Ended(_)) && !live {
                    settled
                        .entry(node.clone())
                        .or_default()
                        .push(member.clone());
                }
                live
            });
        }
        for (node, members) in settled {
            self.settle(&node, &run, members, out);
        }
    }

    /// Before Go: launch everywhere, look for other places for those who cannot start where they are, and
    /// Go once all are ready.
    fn steer_placed(&mut self, current: &Current<'_>, out: &mut Vec<Output>) -> Option<Time> {
        let wake = self.steer_live(current, Kind::Launch, None, out);
        let next = match self.steer_lost(current, out) {
            Lost::Nobody => self.steer_barrier(current, out),
            Lost::Until(next) => next,
        };
        [wake, next].into_iter().flatten().min()
    }

    /// Nobody is lost: Go once all are ready, and the end of the attempt if that takes too long.
    fn steer_barrier(&mut self, current: &Current<'_>, out: &mut Vec<Output>) -> Option<Time> {
        let policy = self.options.policy;
        let gang = &current.run.gang;
        let work = self.work.get_mut(gang)?;
        let is_ready = |place: &&Placement| {
            let standing = work.standing(place);
            matches!(standing, Some(Standing::Ready | Standing::Running))
        };
        let live = live_places(current).count();
        let ready = live_places(current).filter(is_ready).count();
        let all = ready == live;
        if ready > 0 {
            work.ready_since.get_or_insert(self.now);
        }
        let barrier = work
            .ready_since
            .map(|since| since.plus_millis(policy.barrier_ms));
        let since = *work.launching_since.get_or_insert(self.now);
        let limit = barrier.unwrap_or_else(|| since.plus_millis(policy.launch_ms));
        let answers_by = work.answers_by(policy.round_timeout_ms);
        let run = current.run.clone();
        let at_ms = self.wall.as_millis();
        if all && live > 0 {
            self.propose(gang, Proposal::Go, Entry::Go { run, at_ms }, out);
            return None;
        }
        if self.now >= limit {
            self.stop_run(&run, Cause::BarrierTimeout, None, out);
            return None;
        }
        Some(answers_by.map_or(limit, |by| limit.min(by)))
    }

    /// What is to end ends where it is. Where nothing of it has been started nobody waits for nodes that
    /// cannot be reached.
    fn steer_ending(
        &mut self,
        current: &Current<'_>,
        cause: Cause,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let wake = self.steer_live(current, Kind::Stop, Some(cause), out);
        if current.gang.phase == Phase::Voiding || !current.has_started() {
            let answers_by = self.leave_behind(current, out);
            return [wake, answers_by].into_iter().flatten().min();
        }
        wake
    }

    /// Orders every node with live tasks what the phase calls for, and proposes the ends.
    fn steer_live(
        &mut self,
        current: &Current<'_>,
        kind: Kind,
        cause: Option<Cause>,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let gang = &current.run.gang;
        let work = self.work.entry(gang.clone());
        work.or_insert_with(|| Work::new(current.run.clone()))
            .reserving = None;
        let policy = self.options.policy;
        let (disk_mb, grace_ms) = (policy.disk_mb, policy.stop_grace_ms);
        let mut launch: Option<Launch> = None;
        let mut wake: Option<Time> = None;
        for (node, places) in places_by_node(current) {
            let target = Target {
                run: &current.run,
                node,
                kind,
            };
            self.propose_ends(current, &target, &places, out);
            self.relaunch_absent(gang, node, kind);
            let members = || places.iter().map(|place| member_of(place)).collect();
            let command = || match (kind, cause) {
                (Kind::Launch, _) => {
                    let launch = launch.get_or_insert_with(|| Launch::of(current));
                    launch.command(current, &places, (disk_mb, grace_ms))
                }
                (_, Some(cause)) => Command::Stop {
                    members: members(),
                    cause,
                    grace_ms,
                },
                (_, None) => Command::Go { members: members() },
            };
            let due = self.order(&target, command, out);
            wake = [wake, due].into_iter().flatten().min();
        }
        wake
    }

    /// A held task without a container is launched again.
    fn relaunch_absent(&mut self, gang: &GangId, node: &NodeId, kind: Kind) {
        let work = self.work.get_mut(gang);
        let Some(link) = work.and_then(|work| work.links.get_mut(node)) else {
            return;
        };
        if kind == Kind::Launch && link.standing.values().any(|s| *s == Standing::Absent) {
            link.standing
                .retain(|_, standing| *standing != Standing::Absent);
            link.doubt();
        }
    }

    /// Proposes the end of each task that ended, and of each that is not there although the
    /// order for this very phase was answered.
    pub(super) fn propose_ends(
        &mut self,
        current: &Current<'_>,
        target: &Target<'_>,
        places: &[&Placement],
        out: &mut Vec<Output>,
    ) {
        let Target { run, node, kind } = *target;
        let gang = &run.gang;
        for place in places {
            let Some(work) = self.work.get(gang) else {
                return;
            };
            let of_phase = work.links.get(node).is_some_and(|link| link.kind == kind);
            let end = match work.standing(place) {
                Some(Standing::Ended(verdict))
                    if kind == Kind::Launch && is_mendable(current, work, node, verdict) =>
                {
                    continue;
                }
                Some(Standing::Ended(verdict)) => End::Exit(verdict.clone()),
                Some(Standing::Gone) if of_phase && kind != Kind::Launch => End::Gone,
                Some(_) | None => continue,
            };
            let entry = Entry::TaskEnded {
                run: current.run.clone(),
                task: place.task.clone(),
                uid: place.uid.clone(),
                end,
                at_ms: self.wall.as_millis(),
            };
            self.propose(gang, Proposal::Ended(place.uid.clone()), entry, out);
        }
    }

    /// Has a run that is placed or going end for this; if it is preempted, for whom.
    pub(super) fn stop_run(
        &mut self,
        run: &Run,
        cause: Cause,
        by: Option<JobKey>,
        out: &mut Vec<Output>,
    ) {
        let entry = Entry::Stopping {
            run: run.clone(),
            cause,
            by,
            at_ms: self.wall.as_millis(),
        };
        self.propose(&run.gang, Proposal::Stopping, entry, out);
    }

    pub(super) fn propose(
        &mut self,
        gang: &GangId,
        what: Proposal,
        entry: Entry,
        out: &mut Vec<Output>,
    ) {
        let work = self.work.get_mut(gang);
        if work.is_some_and(|work| work.proposed.add(what)) {
            out.push(Output::Propose(Box::new(entry)));
        }
    }

    /// Sends the order if it is due; says when to look again while it is not answered.
    pub(super) fn order(
        &mut self,
        target: &Target<'_>,
        command: impl FnOnce() -> Command,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let Target { run, node, kind } = *target;
        let policy = self.options.policy;
        let now = self.now;
        let is_new = !self.work_of(run)?.links.contains(node);
        if is_new {
            let linked = self.linked.entry(node.clone()).or_default();
            linked.insert(run.gang.clone());
            let links = &mut self.work_of_mut(run)?.links;
            links.insert(node.clone(), Link::new(kind, now));
        }
        let link = self.work_of(run)?.links.get(node)?;
        let due = link.due(kind, policy.resend_ms, policy.resend_max_ms)?;
        if due > now {
            return Some(due);
        }
        if !self.nodes.contains(node) {
            // Its next report brings the gang back here.
            return None;
        }
        let seq = self.send(node, run, command(), out);
        let link = self.work_of_mut(run)?.links.get_mut(node)?;
        link.sent(now, kind, seq);
        link.due(kind, policy.resend_ms, policy.resend_max_ms)
    }
}
