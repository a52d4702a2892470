//! A gang that is placed and cannot start where it is: who is well keeps its place, the others get new
//! ones in the next round. Where there are none the round is void.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{NodeId, TaskId};
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;
use muster_placement::gang::Placement as Pods;

use super::ask::{ask, uid_of};
use super::lost::{LostMember, LostMembers, may_relocate, reasons};
use super::parts::GangContext;
use super::reserve::{Reserved, steer_reserving, unreserve};
use super::runs::GangRuns;
use super::work::{Instead, Proposal, Relocation, Reserving, RunWork};
use crate::coordinator::planner::places_elsewhere;
use crate::gang::{GangId, GangRun};
use crate::vc::{Current, VcEntry};

/// Places are looked for again after this, while there are none, milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;

/// Gangs that places are looked for again, for members that cannot start where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Relocations {
    wanted: BTreeSet<GangId>,
}

impl Relocations {
    /// Whether other places are to be looked for, for any gang.
    pub(super) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// The gangs that other places are to be looked for now.
    pub(super) fn take_wanted(&mut self) -> BTreeSet<GangId> {
        std::mem::take(&mut self.wanted)
    }

    /// Looks after members that cannot start where they are, if there are any.
    pub(super) fn steer(
        &mut self,
        current: &Current<'_>,
        runs: &mut GangRuns,
        parts: &mut GangContext<'_>,
    ) -> LostMembers {
        let gang = &current.run.gang;
        let is_proposed = |work: Option<&RunWork>, what: &Proposal| {
            work.is_some_and(|work| work.is_proposed(what))
        };
        let is_decided = is_proposed(runs.next(gang), &Proposal::Placed)
            || is_proposed(runs.get(gang), &Proposal::Go)
            || is_proposed(runs.get(gang), &Proposal::Void);
        if is_decided {
            return LostMembers::Until(None);
        }
        if let Some(work) = runs.get_mut(gang) {
            work.note_gone();
        }
        runs.note_silent(gang, parts);
        let lost = lost_members(current, runs, parts);
        if lost.is_empty() {
            self.end(current, runs, parts);
            return LostMembers::Nobody;
        }
        let now = parts.context.now;
        let Some(work) = runs.get_mut(gang) else {
            return LostMembers::Nobody;
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
                return LostMembers::Until(self.void(current, &lost, runs, parts));
            }
        };
        let timeout = since.plus_millis(parts.context.options.policy.round_timeout_ms);
        if now >= timeout {
            return LostMembers::Until(self.void(current, &lost, runs, parts));
        }
        let next = self.steer_next(current, &lost, runs, parts);
        LostMembers::Until(Some(timeout.min(next)))
    }

    /// Reserves the places that were found, or looks for some.
    fn steer_next(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        runs: &mut GangRuns,
        parts: &mut GangContext<'_>,
    ) -> Time {
        let gang = &current.run.gang;
        let now = parts.context.now;
        let again = now.plus_millis(LOOK_AGAIN_MS);
        if !may_relocate(current) {
            return again;
        }
        let Some(next) = runs.next(gang) else {
            self.wanted.insert(gang.clone());
            return again;
        };
        let (run, retry_at) = (next.run.clone(), next.retry_at);
        let instead = next.reserving.as_ref().and_then(|it| it.instead.as_ref());
        let Some(instead) = instead else {
            if retry_at <= now {
                self.wanted.insert(gang.clone());
                return again;
            }
            return retry_at;
        };
        let left = instead.left.iter().map(|(_, member)| member);
        if !left.eq(lost.iter().map(|lost| &lost.member)) {
            vacate(current, lost, parts);
            return self.give_up(&run, runs, parts);
        }
        let next = Current {
            run,
            ..current.clone()
        };
        match steer_reserving(&next, runs, parts) {
            Reserved::LookAgain(at) => at.unwrap_or(again),
            Reserved::Refused => self.give_up(&next.run, runs, parts),
        }
    }

    /// Frees what was reserved for the next round of a gang, as far as that gets through, and looks for other
    /// places.
    pub(super) fn give_up(
        &mut self,
        run: &GangRun,
        runs: &mut GangRuns,
        parts: &mut GangContext<'_>,
    ) -> Time {
        let retry_at = unreserve(run, runs, parts);
        parts.inventory.end_relocation(&run.gang);
        self.wanted.insert(run.gang.clone());
        retry_at
    }

    /// Places for everybody are not to be had, or not in this round: it is void. Where a member could not
    /// be launched its end is proposed with the next look at it.
    fn void(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        runs: &mut GangRuns,
        parts: &mut GangContext<'_>,
    ) -> Option<Time> {
        let gang = &current.run.gang;
        self.stop(gang, runs, parts);
        let work = runs.get_mut(gang)?;
        work.relocation = Relocation::GivenUp;
        if lost.iter().any(LostMember::has_failed) {
            return Some(parts.context.now);
        }
        let entry = VcEntry::Void {
            run: current.run.clone(),
            reason: reasons(lost),
            at_ms: parts.context.wall.as_millis(),
        };
        runs.propose(gang, Proposal::Void, entry, parts.out);
        None
    }

    /// All are well where they are.
    fn end(&mut self, current: &Current<'_>, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
        let gang = &current.run.gang;
        let work = runs.get_mut(gang);
        let work = work.filter(|work| matches!(work.relocation, Relocation::Since(_)));
        if let Some(work) = work {
            work.relocation = Relocation::NotNeeded;
            self.stop(gang, runs, parts);
            parts.inventory.stay(current, &parts.context.terms());
        }
    }

    /// No other places are looked for any more.
    pub(super) fn stop(&mut self, gang: &GangId, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
        self.wanted.remove(gang);
        let Some(run) = runs.next(gang).map(|next| next.run.clone()) else {
            return;
        };
        unreserve(&run, runs, parts);
        runs.forget_next(gang);
        parts.inventory.end_relocation(gang);
    }

    /// Looks for places for the members of a gang that are lost, and begins to reserve them. Whether they are
    /// found; if not, the round may be void, and the gang is to be looked at again.
    pub(super) fn find(
        &mut self,
        current: &Current<'_>,
        runs: &mut GangRuns,
        parts: &mut GangContext<'_>,
    ) -> bool {
        let gang = &current.run.gang;
        let lost = lost_members(current, runs, parts);
        let now = parts.context.now;
        let is_due = |next: &RunWork| next.reserving.is_none() && next.retry_at <= now;
        if lost.is_empty() || !runs.next(gang).is_none_or(is_due) {
            return false;
        }
        let found = other_places(current, &lost, runs, parts);
        if found.is_some_and(|pods| reserve_instead(current, &lost, &pods, (runs, parts))) {
            return true;
        }
        parts.inventory.end_relocation(gang);
        // Who leads again may not have heard of all nodes yet.
        let is_clear = parts.liveness.mute(parts.nodes).next().is_none();
        if is_clear && !lost.iter().all(LostMember::may_be_back) {
            let wake = self.void(current, &lost, runs, parts);
            runs.wake_at(gang, wake);
        }
        false
    }
}

/// The members that cannot start where they are.
fn lost_members(
    current: &Current<'_>,
    runs: &GangRuns,
    parts: &GangContext<'_>,
) -> Vec<LostMember> {
    match runs.get(&current.run.gang) {
        Some(work) => parts.sight().lost(work, current),
        None => Vec::new(),
    }
}

/// Where members may go whose places are lost; nobody gives way for them.
fn other_places(
    current: &Current<'_>,
    lost: &[LostMember],
    runs: &mut GangRuns,
    parts: &mut GangContext<'_>,
) -> Option<Pods> {
    let work = runs.get_mut(&current.run.gang)?;
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
    current: &Current<'_>,
    lost: &[LostMember],
    pods: &Pods,
    (runs, parts): (&mut GangRuns, &GangContext<'_>),
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
            reserving.members.push(TaskPlacement {
                uid: uid_of(&parts.context, &next, &task.id),
                ..place.clone()
            });
        }
    }
    let work = runs.begin_next(&next.run);
    work.reserving = Some(Box::new(reserving));
    work.links.clear();
    true
}

/// The cells have those who are lost no more, and all others.
fn vacate(current: &Current<'_>, lost: &[LostMember], parts: &mut GangContext<'_>) {
    let pods = lost.iter().map(|lost| lost.pod).collect();
    let terms = parts.context.terms();
    parts.inventory.vacate(current, &pods, &terms);
}
