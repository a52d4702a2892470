//! A gang that is placed and cannot start where it is: who is well keeps its place, the others get new
//! ones in the next round. Where there are none the round is void.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::{NodeId, TaskId};
use muster_model::launch::Placement;
use muster_model::time::Time;
use muster_placement::gang::Placement as Pods;

use super::ask::{ask, uid_of};
use super::lost::{Lost, LostMember, Sight, may_relocate, reasons};
use super::work::{Instead, Proposal, Relocation, Reserving, Work};
use super::{Gangs, Parts};
use crate::coordinator::planner::places_elsewhere;
use crate::gang::{GangId, Run};
use crate::order::{Command, Member};
use crate::vc::attempt::Phase;
use crate::vc::{Current, Entry, some_of};

/// Places are looked for again after this, while there are none, milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;

impl Gangs {
    /// Why other places are looked for, if they are, for people.
    pub(in crate::coordinator) fn why_relocated(
        &self,
        current: &Current<'_>,
        sight: Sight<'_>,
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
        !self.to_relocate.is_empty()
    }

    /// Looks after members that cannot start where they are, if there are any.
    pub(super) fn steer_lost(&mut self, current: &Current<'_>, parts: &mut Parts<'_>) -> Lost {
        let gang = &current.run.gang;
        let is_proposed =
            |work: Option<&Work>, what: &Proposal| work.is_some_and(|work| work.is_proposed(what));
        let is_decided = is_proposed(self.runs.next(gang), &Proposal::Placed)
            || is_proposed(self.runs.get(gang), &Proposal::Go)
            || is_proposed(self.runs.get(gang), &Proposal::Void);
        if is_decided {
            return Lost::Until(None);
        }
        if let Some(work) = self.runs.get_mut(gang) {
            work.note_gone();
        }
        self.note_silent(gang, parts);
        let lost = self.lost(current, parts);
        if lost.is_empty() {
            self.end_relocation(current, parts);
            return Lost::Nobody;
        }
        let now = parts.context.now;
        let Some(work) = self.runs.get_mut(gang) else {
            return Lost::Nobody;
        };
        let since = match work.relocation {
            Relocation::Since(since) => since,
            Relocation::NotNeeded
                if may_relocate(current) || lost.iter().all(LostMember::may_be_back) =>
            {
                work.relocation = Relocation::Since(now);
                now
            }
            Relocation::NotNeeded | Relocation::GivenUp => {
                return Lost::Until(self.void(current, &lost, parts));
            }
        };
        let timeout = since.plus_millis(parts.context.options.policy.round_timeout_ms);
        if now >= timeout {
            return Lost::Until(self.void(current, &lost, parts));
        }
        let next = self.steer_relocation(current, &lost, parts);
        Lost::Until(Some(timeout.min(next)))
    }

    /// Reserves the places that were found, or looks for some.
    fn steer_relocation(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        parts: &mut Parts<'_>,
    ) -> Time {
        let gang = &current.run.gang;
        let now = parts.context.now;
        let again = now.plus_millis(LOOK_AGAIN_MS);
        if !may_relocate(current) {
            return again;
        }
        let Some(next) = self.runs.next(gang) else {
            self.to_relocate.insert(gang.clone());
            return again;
        };
        let (run, retry_at) = (next.run.clone(), next.retry_at);
        let instead = next.reserving.as_ref().and_then(|it| it.instead.as_ref());
        let Some(instead) = instead else {
            if retry_at <= now {
                self.to_relocate.insert(gang.clone());
                return again;
            }
            return retry_at;
        };
        let left = instead.left.iter().map(|(_, member)| member);
        if !left.eq(lost.iter().map(|lost| &lost.member)) {
            vacate(current, lost, parts);
            return self.give_up(&run, parts);
        }
        let next = Current {
            run,
            ..current.clone()
        };
        self.steer_reserving(&next, parts).unwrap_or(again)
    }

    /// Nodes that have let an order wait for too long are mute.
    pub(super) fn note_silent(&mut self, gang: &GangId, parts: &mut Parts<'_>) {
        let patience_ms = parts.context.options.policy.round_timeout_ms;
        if let Some(work) = self.runs.get_mut(gang) {
            parts.mute(work.note_silent(parts.context.now, patience_ms));
        }
    }

    /// The members that cannot start where they are.
    fn lost(&self, current: &Current<'_>, parts: &Parts<'_>) -> Vec<LostMember> {
        match self.runs.get(&current.run.gang) {
            Some(work) => parts.sight().lost(work, current),
            None => Vec::new(),
        }
    }

    /// Places for everybody are not to be had, or not in this round: it is void. Where a member could not
    /// be launched its end is proposed with the next look at it.
    fn void(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        parts: &mut Parts<'_>,
    ) -> Option<Time> {
        let gang = &current.run.gang;
        self.stop_relocation(gang, parts);
        let work = self.runs.get_mut(gang)?;
        work.relocation = Relocation::GivenUp;
        if lost.iter().any(LostMember::has_failed) {
            return Some(parts.context.now);
        }
        let entry = Entry::Void {
            run: current.run.clone(),
            reason: reasons(lost),
            at_ms: parts.context.wall.as_millis(),
        };
        self.propose(gang, Proposal::Void, entry, parts);
        None
    }

    /// All are well where they are.
    fn end_relocation(&mut self, current: &Current<'_>, parts: &mut Parts<'_>) {
        let gang = &current.run.gang;
        let work = self.runs.get_mut(gang);
        let work = work.filter(|work| matches!(work.relocation, Relocation::Since(_)));
        if let Some(work) = work {
            work.relocation = Relocation::NotNeeded;
            self.stop_relocation(gang, parts);
            parts.inventory.stay(current, &parts.context.terms());
        }
    }

    /// No other places are looked for any more.
    pub(super) fn stop_relocation(&mut self, gang: &GangId, parts: &mut Parts<'_>) {
        self.to_relocate.remove(gang);
        let Some(run) = self.runs.next(gang).map(|next| next.run.clone()) else {
            return;
        };
        self.unreserve(&run, parts);
        self.runs.forget_next(gang);
        parts.inventory.end_relocation(gang);
    }

    /// Looks for places for all that need some, on cells that are up to date.
    pub(in crate::coordinator) fn relocate_all(&mut self, parts: &mut Parts<'_>) {
        for gang in std::mem::take(&mut self.to_relocate) {
            let current = parts.context.state.current(&gang);
            let current = current.filter(|it| matches!(it.gang.phase, Phase::Placed { .. }));
            if let Some(current) = current {
                self.relocate(&current, parts);
            }
        }
    }

    fn relocate(&mut self, current: &Current<'_>, parts: &mut Parts<'_>) {
        let gang = &current.run.gang;
        let lost = self.lost(current, parts);
        let now = parts.context.now;
        let is_due = |next: &Work| next.reserving.is_none() && next.retry_at <= now;
        if lost.is_empty() || !self.runs.next(gang).is_none_or(is_due) {
            return;
        }
        let found = self.other_places(current, &lost, parts);
        if found.is_some_and(|pods| self.reserve_instead(current, &lost, &pods, parts)) {
            return self.steer(gang, parts);
        }
        parts.inventory.end_relocation(gang);
        // Who leads again may not have heard of all nodes yet.
        let is_clear = parts.liveness.mute(parts.nodes).next().is_none();
        if is_clear && !lost.iter().all(LostMember::may_be_back) {
            let wake = self.void(current, &lost, parts);
            self.runs.wake_at(gang, wake);
        }
    }

    /// Where members may go whose places are lost; nobody gives way for them.
    fn other_places(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        parts: &mut Parts<'_>,
    ) -> Option<Pods> {
        let work = self.runs.get_mut(&current.run.gang)?;
        for failed in lost.iter().filter(|lost| lost.has_failed()) {
            work.shunned.add(failed.node.clone());
        }
        let avoided: BTreeSet<NodeId> = work.shunned.keys().cloned().collect();
        vacate(current, lost, parts);
        let tasks: Vec<&TaskId> = lost.iter().map(|lost| &lost.member.task).collect();
        let terms = parts.context.terms();
        let members = parts.inventory.relocate(current, &tasks, &terms).ok()?;
        let cut_off = parts.liveness.cut_off(parts.nodes);
        places_elsewhere(&parts.context, parts.inventory, members, avoided, cut_off)
    }

    /// Begins to reserve the places for the next round; false if a node does not have one any more.
    fn reserve_instead(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        pods: &Pods,
        parts: &Parts<'_>,
    ) -> bool {
        let Some(run) = current.next_round() else {
            return false;
        };
        let next = Current {
            run,
            ..current.clone()
        };
        let left = lost
            .iter()
            .map(|lost| (lost.node.clone(), lost.member.clone()));
        let mut reserving = Reserving {
            members: Vec::new(),
            instead: Some(Instead {
                left: left.collect(),
                reason: reasons(lost),
            }),
            asks: BTreeMap::new(),
            victims: BTreeMap::new(),
            since: parts.context.now,
        };
        let mut pods = pods.pods.iter();
        let tasks = current.job.attempt.tasks_of(current.gang);
        for (pod, task) in tasks.enumerate() {
            if lost.iter().any(|lost| lost.pod == pod) {
                let leaves = pods.next().map_or(&[][..], Vec::as_slice);
                let Some((placement, ask)) = ask(parts, &next, &task.id, leaves) else {
                    return false;
                };
                let asks = reserving.asks.entry(placement.node.clone()).or_default();
                asks.push(ask);
                reserving.members.push(placement);
            } else if let Some(place) = task.live() {
                reserving.members.push(Placement {
                    uid: uid_of(&parts.context, &next, &task.id),
                    ..place.clone()
                });
            }
        }
        let work = self.runs.begin_next(&next.run);
        work.reserving = Some(Box::new(reserving));
        work.links.clear();
        true
    }

    /// The gang is in another round by now. Whoever had another place in the one before is stopped there.
    pub(super) fn turn(&mut self, current: &Current<'_>, parts: &mut Parts<'_>) {
        let gang = &current.run.gang;
        let is_next = |next: &Work| next.run == current.run;
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

/// The cells have those who are lost no more, and all others.
fn vacate(current: &Current<'_>, lost: &[LostMember], parts: &mut Parts<'_>) {
    let pods = lost.iter().map(|lost| lost.pod).collect();
    let terms = parts.context.terms();
    parts.inventory.vacate(current, &pods, &terms);
}

/// Who comes to know of it late, or never, is asked what it has as long as it may have something.
fn stop_left(run: &Run, left: Vec<(NodeId, Member)>, parts: &mut Parts<'_>) {
    for (node, member) in left {
        let command = Command::Stop {
            members: vec![member],
            cause: Cause::AttemptCompleted,
            grace_ms: parts.context.options.policy.stop_grace_ms,
        };
        parts.send(&node, run, command);
        parts.nodes.set_unsettled(&node, true);
    }
}
