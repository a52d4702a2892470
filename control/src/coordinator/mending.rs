//! A gang that is placed and cannot start where it is: who is well keeps its place, the others get new
//! ones in the next round. Where there are none the round is void.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::{NodeId, TaskId};
use muster_model::job::NearSpec;
use muster_model::launch::Placement;
use muster_model::time::Time;
use muster_placement::decide::Decision;
use muster_placement::gang::Placement as Pods;
use muster_placement::plan::advance;
use muster_placement::queue::{Queue, Queued};

use super::launching::member_of;
use super::work::{Instead, Link, Mending, Proposal, Reserving, Work};
use super::{Coordinator, Output};
use crate::gang::{GangId, Run};
use crate::order::{Command, Member, Standing};
use crate::vc::attempt::Phase;
use crate::vc::{Current, Entry, VcState, some_of};
use crate::verdict::{EXIT_NOT_CREATED, EXIT_PREEMPTED};

/// On so many nodes members may fail to be launched and get other places. Then it is not the machines'
/// fault, and the attempt ends with what they say.
const FAILED_NODES_MAX: usize = 3;
/// Places are looked for again after this, while there are none, milliseconds.
const LOOK_AGAIN_MS: u64 = 1_000;

/// Whether a gang has members that cannot start where they are.
pub(super) enum Lost {
    /// It has none.
    Nobody,
    /// It has; it is to be looked at again then.
    Until(Option<Time>),
}

/// A member that cannot start where it is.
#[derive(Clone, Debug)]
struct LostMember {
    /// Its number among the gang's tasks.
    pod: usize,
    node: NodeId,
    member: Member,
    why: Why,
}

/// Why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// The mesh does not reach its node.
    Unreachable,
    /// Its node does not answer this leader.
    Silent,
    /// Its node has no place for it any more.
    Gone,
    /// Its node could not launch it.
    Failed { code: i32, phrase: String },
}

impl LostMember {
    fn reason(&self) -> String {
        let node = &self.node;
        match &self.why {
            Why::Unreachable => format!("{node} cannot be reached"),
            Why::Silent => format!("{node} does not answer"),
            Why::Gone => format!("{node} no longer had the reservation"),
            Why::Failed { code, phrase } => {
                format!("{node} could not launch it: {phrase}, exit code {code}")
            }
        }
    }

    /// Whether it may come to be well without anybody's doing.
    const fn may_be_back(&self) -> bool {
        matches!(self.why, Why::Unreachable | Why::Silent)
    }
}

/// Whether a task that ended before Go is placed elsewhere, and its end is of no other matter.
pub(super) fn is_mendable(
    current: &Current<'_>,
    work: &Work,
    node: &NodeId,
    verdict: &Verdict,
) -> bool {
    may_be_of_machine(verdict)
        && verdict.code() != EXIT_PREEMPTED
        && (work.shunned.contains(node) || work.shunned.keys().count() < FAILED_NODES_MAX)
        && may_mend(current)
        && work.mending != Mending::GivenUp
}

/// Whether another machine may launch what this one could not. Where an engine's refusal does not say whose
/// fault it is, other machines tell: what none of them can make is the user's.
fn may_be_of_machine(verdict: &Verdict) -> bool {
    match verdict.spec.behavior {
        Behavior::Transient | Behavior::TransientConflict => true,
        Behavior::Unknown => verdict.code() == EXIT_NOT_CREATED,
        Behavior::Permanent => false,
    }
}

/// Whether members can have other places alone. Tasks that are to be near each other are placed together.
fn may_mend(current: &Current<'_>) -> bool {
    let mut roles = current.job.accepted.spec.roles.iter();
    let is_apart = |near: NearSpec| near.level.is_inside_node();
    current.next_round().is_some() && roles.all(|role| role.near.is_none_or(is_apart))
}

/// Why they cannot start, each reason once.
fn reasons(lost: &[LostMember]) -> String {
    let reasons: BTreeSet<String> = lost.iter().map(LostMember::reason).collect();
    some_of(reasons.into_iter(), "; ")
}

impl Coordinator {
    /// Why other places are looked for, if they are, for people.
    pub(super) fn mending_for(&self, current: &Current<'_>) -> Option<String> {
        let work = self.work.get(&current.run.gang)?;
        if !matches!(work.mending, Mending::Since(_)) {
            return None;
        }
        let lost = self.lost(current);
        let names = lost.iter().map(|lost| lost.member.task.to_string());
        let names = some_of(names, ", ");
        Some(format!(
            "another place is looked for, for {names}: {}",
            reasons(&lost)
        ))
    }

    /// Looks after members that cannot start where they are, if there are any.
    pub(super) fn steer_lost(&mut self, current: &Current<'_>, out: &mut Vec<Output>) -> Lost {
        let gang = &current.run.gang;
        let is_proposed = |work: Option<&Work>, what: &Proposal| {
            work.is_some_and(|work| work.proposed.contains(what))
        };
        let is_decided = is_proposed(self.mends.get(gang), &Proposal::Placed)
            || is_proposed(self.work.get(gang), &Proposal::Go)
            || is_proposed(self.work.get(gang), &Proposal::Void);
        if is_decided {
            return Lost::Until(None);
        }
        self.note_gone(gang);
        self.note_silent(gang, out);
        let lost = self.lost(current);
        if lost.is_empty() {
            self.end_mending(current, out);
            return Lost::Nobody;
        }
        let (now, timeout_ms) = (self.now, self.options.policy.round_timeout_ms);
        let Some(work) = self.work.get_mut(gang) else {
            return Lost::Nobody;
        };
        let since = match work.mending {
            Mending::Since(since) => since,
            Mending::Not if may_mend(current) || lost.iter().all(LostMember::may_be_back) => {
                work.mending = Mending::Since(now);
                now
            }
            Mending::Not | Mending::GivenUp => {
                return Lost::Until(self.void(current, &lost, out));
            }
        };
        let timeout = since.plus_millis(timeout_ms);
        if now >= timeout {
            return Lost::Until(self.void(current, &lost, out));
        }
        let next = self.steer_mend(current, &lost, out);
        Lost::Until(Some(timeout.min(next)))
    }

    /// Reserves the places that were found, or looks for some.
    fn steer_mend(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        out: &mut Vec<Output>,
    ) -> Time {
        let gang = &current.run.gang;
        let again = self.now.plus_millis(LOOK_AGAIN_MS);
        if !may_mend(current) {
            return again;
        }
        let Some(mend) = self.mends.get(gang) else {
            self.to_mend.insert(gang.clone());
            return again;
        };
        let (run, retry_at) = (mend.run.clone(), mend.retry_at);
        let instead = mend.reserving.as_ref().and_then(|it| it.instead.as_ref());
        let Some(instead) = instead else {
            if retry_at <= self.now {
                self.to_mend.insert(gang.clone());
                return again;
            }
            return retry_at;
        };
        let left = instead.left.iter().map(|(_, member)| member);
        if !left.eq(lost.iter().map(|lost| &lost.member)) {
            self.part(current, lost);
            return self.give_up(&run, out);
        }
        let next = Current {
            run,
            ..current.clone()
        };
        self.steer_reserving(&next, out).unwrap_or(again)
    }

    /// What a node has no place for in this run it never will have one for.
    fn note_gone(&mut self, gang: &GangId) {
        let Some(work) = self.work.get_mut(gang) else {
            return;
        };
        let standings = work.links.values().flat_map(|link| link.standing.iter());
        let gone = standings.filter(|(_, standing)| **standing == Standing::Gone);
        for (member, _) in gone {
            work.gone.add(member.uid.clone());
        }
    }

    /// Nodes that have let an order wait for too long are mute.
    pub(super) fn note_silent(&mut self, gang: &GangId, out: &mut Vec<Output>) {
        let (now, patience_ms) = (self.now, self.options.policy.round_timeout_ms);
        let Some(work) = self.work.get_mut(gang) else {
            return;
        };
        let mut silent = Vec::new();
        for (node, link) in work.links.iter_mut() {
            if link.answers_by(patience_ms).is_some_and(|by| by <= now) {
                link.set_silent();
                silent.push(node.clone());
            }
        }
        self.mute(silent, out);
    }

    /// Whether a node let this order wait for too long and has not been heard since, or never was.
    pub(super) fn is_mute(&self, node: &NodeId, link: &Link) -> bool {
        link.is_silent() && (self.nodes.mute().contains(node) || !self.nodes.contains(node))
    }

    /// A node that was mute says something: who is waited for there may be well.
    pub(super) fn heard_again(&mut self, state: &VcState, node: &NodeId, out: &mut Vec<Output>) {
        let now = self.now;
        let linked = self.linked.get(node).into_iter().flatten();
        let gangs: Vec<GangId> = linked.cloned().collect();
        for gang in gangs {
            let Some(work) = self.work.get_mut(&gang) else {
                continue;
            };
            if let Some(link) = work.links.get_mut(node) {
                link.heard(now);
            }
            if work.mending != Mending::Not {
                self.steer(state, &gang, out);
            }
        }
    }

    /// The members that cannot start where they are.
    fn lost(&self, current: &Current<'_>) -> Vec<LostMember> {
        let Some(work) = self.work.get(&current.run.gang) else {
            return Vec::new();
        };
        let tasks = current.job.attempt.tasks_of(current.gang).enumerate();
        let places = tasks.filter_map(|(pod, task)| Some((pod, task.live()?)));
        let lost = places.filter_map(|(pod, place)| {
            Some(LostMember {
                pod,
                node: place.node.clone(),
                member: member_of(place),
                why: self.why_lost(current, work, place)?,
            })
        });
        lost.collect()
    }

    /// Asked of every member with every look at the gang: most are well, and that must cost little.
    fn why_lost(&self, current: &Current<'_>, work: &Work, place: &Placement) -> Option<Why> {
        if work.gone.contains(&place.uid) {
            return Some(Why::Gone);
        }
        let link = work.links.get(&place.node)?;
        if let Some(verdict) = link.end_of(&place.uid) {
            let failed = || Why::Failed {
                code: verdict.code(),
                phrase: verdict.spec.phrase.clone(),
            };
            return is_mendable(current, work, &place.node, verdict).then(failed);
        }
        if self.options.generation > 1 {
            // That it was started may be among what was lost.
            return None;
        }
        if self.unreachable.contains(&place.node) {
            return Some(Why::Unreachable);
        }
        self.is_mute(&place.node, link).then_some(Why::Silent)
    }

    /// Places for everybody are not to be had, or not in this round: it is void. Where a member could not
    /// be launched its end is proposed with the next look at it.
    fn void(
        &mut self,
        current: &Current<'_>,
        lost: &[LostMember],
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let gang = &current.run.gang;
        self.stop_mending(gang, out);
        let work = self.work.get_mut(gang)?;
        work.mending = Mending::GivenUp;
        let has_failed = |lost: &LostMember| matches!(lost.why, Why::Failed { .. });
        if lost.iter().any(has_failed) {
            return Some(self.now);
        }
        let entry = Entry::Void {
            run: current.run.clone(),
            reason: reasons(lost),
            at_ms: self.wall.as_millis(),
        };
        self.propose(gang, Proposal::Void, entry, out);
        None
    }

    /// All are well where they are.
    fn end_mending(&mut self, current: &Current<'_>, out: &mut Vec<Output>) {
        let gang = &current.run.gang;
        let work = self.work.get_mut(gang);
        let work = work.filter(|work| matches!(work.mending, Mending::Since(_)));
        if let Some(work) = work {
            work.mending = Mending::Not;
            self.stop_mending(gang, out);
            let terms = self.terms();
            self.inventory.rejoin(current, &terms);
        }
    }

    /// No other places are looked for any more.
    pub(super) fn stop_mending(&mut self, gang: &GangId, out: &mut Vec<Output>) {
        self.to_mend.remove(gang);
        let Some(run) = self.mends.get(gang).map(|mend| mend.run.clone()) else {
            return;
        };
        self.unreserve(&run, out);
        self.mends.remove(gang);
        self.inventory.end_mend(gang);
    }

    /// Looks for places for all that need some.
    pub(super) fn mend_all(&mut self, state: &VcState, out: &mut Vec<Output>) {
        if self.to_mend.is_empty() || self.is_held(state) || !self.update_cells(state) {
            return;
        }
        self.inventory.follow_others(&self.nodes);
        for gang in std::mem::take(&mut self.to_mend) {
            let current = state.current(&gang);
            let current = current.filter(|it| matches!(it.gang.phase, Phase::Placed { .. }));
            if let Some(current) = current {
                self.mend(state, &current, out);
            }
        }
    }

    fn mend(&mut self, state: &VcState, current: &Current<'_>, out: &mut Vec<Output>) {
        let gang = &current.run.gang;
        let lost = self.lost(current);
        let is_due = self
            .mends
            .get(gang)
            .is_none_or(|mend| mend.reserving.is_none() && mend.retry_at <= self.now);
        if lost.is_empty() || !is_due {
            return;
        }
        let found = self.other_places(current, &lost);
        let is_begun = found.is_some_and(|pods| self.reserve_instead(state, current, &lost, &pods));
        if !is_begun {
            self.inventory.end_mend(gang);
            // Who leads again may not have heard of all nodes yet.
            let is_clear = self.nodes.mute().is_subset(&self.unreachable);
            if is_clear && !lost.iter().all(LostMember::may_be_back) {
                let wake = self.void(current, &lost, out);
                self.wake_at(gang, wake);
            }
            return;
        }
        self.steer(state, gang, out);
    }

    /// The cells have those who are lost no more, and all others.
    fn part(&mut self, current: &Current<'_>, lost: &[LostMember]) {
        let terms = self.terms();
        let pods = lost.iter().map(|lost| lost.pod).collect();
        self.inventory.part(current, &pods, &terms);
    }

    /// Where members may go whose places are lost; nobody gives way for them.
    fn other_places(&mut self, current: &Current<'_>, lost: &[LostMember]) -> Option<Pods> {
        let failed = lost
            .iter()
            .filter(|lost| matches!(lost.why, Why::Failed { .. }));
        let failed: Vec<NodeId> = failed.map(|lost| lost.node.clone()).collect();
        let work = self.work.get_mut(&current.run.gang)?;
        for node in failed {
            work.shunned.add(node);
        }
        let mut avoided: BTreeSet<NodeId> = work.shunned.keys().cloned().collect();
        self.part(current, lost);
        let tasks: Vec<&TaskId> = lost.iter().map(|lost| &lost.member.task).collect();
        let terms = self.terms();
        let gang = self.inventory.mend(current, &tasks, &terms).ok()?;
        let queue = Queue {
            gangs: vec![Queued {
                gang,
                since: self.wall,
            }],
        };
        avoided.extend(self.cut_off());
        self.inventory.reach(avoided);
        let policy = self.options.placement;
        let cells = self.inventory.cells_mut();
        let plan = cells.map(|cells| advance(cells, &queue, &policy, self.wall));
        self.inventory.reach(self.cut_off());
        match plan?.decisions.pop()?.1 {
            Decision::Place(grant) => Some(grant.placement),
            Decision::Preempt { .. } | Decision::Wait(_) | Decision::Refuse(_) => None,
        }
    }

    /// Begins to reserve the places for the next round; false if a node does not have one any more.
    fn reserve_instead(
        &mut self,
        state: &VcState,
        current: &Current<'_>,
        lost: &[LostMember],
        pods: &Pods,
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
            since: self.now,
        };
        let mut pods = pods.pods.iter();
        let tasks = current.job.attempt.tasks_of(current.gang);
        for (pod, task) in tasks.enumerate() {
            if lost.iter().any(|lost| lost.pod == pod) {
                let leaves = pods.next().map_or(&[][..], Vec::as_slice);
                let Some((placement, ask)) = self.ask(state, &next, &task.id, leaves) else {
                    return false;
                };
                let asks = reserving.asks.entry(placement.node.clone()).or_default();
                asks.push(ask);
                reserving.members.push(placement);
            } else if let Some(place) = task.live() {
                reserving.members.push(Placement {
                    uid: self.uid_of(&next, &task.id),
                    ..place.clone()
                });
            }
        }
        let mend = self.mends.entry(current.run.gang.clone());
        let mend = mend.or_insert_with(|| Work::new(next.run));
        mend.reserving = Some(Box::new(reserving));
        mend.links.clear();
        true
    }

    /// The gang is in another round by now. Whoever had another place in the one before is stopped there.
    pub(super) fn turn(&mut self, current: &Current<'_>, out: &mut Vec<Output>) {
        let gang = &current.run.gang;
        let is_next = |mend: &Work| mend.run == current.run;
        if !self.mends.get(gang).is_some_and(is_next) {
            return self.forget(gang);
        }
        let shunned = self
            .work
            .get_mut(gang)
            .map(|work| std::mem::take(&mut work.shunned));
        let before = self.work.get(gang).map(|work| work.run.clone());
        self.forget(gang);
        let Some(mut next) = self.mends.remove(gang) else {
            return;
        };
        next.shunned = shunned.unwrap_or_default();
        let instead = next.reserving.take().and_then(|it| it.instead);
        for node in next.links.keys() {
            let linked = self.linked.entry(node.clone()).or_default();
            linked.insert(gang.clone());
        }
        self.work.insert(gang.clone(), next);
        let left = instead.map(|instead| instead.left).unwrap_or_default();
        if let Some(before) = before {
            self.stop_left(&before, left, out);
        }
    }

    /// Who comes to know of it late, or never, is asked what it has as long as it may have something.
    fn stop_left(&mut self, run: &Run, left: Vec<(NodeId, Member)>, out: &mut Vec<Output>) {
        let grace_ms = self.options.policy.stop_grace_ms;
        for (node, member) in left {
            let command = Command::Stop {
                members: vec![member],
                cause: Cause::AttemptCompleted,
                grace_ms,
            };
            self.send(&node, run, command, out);
            self.nodes.set_unsettled(&node, true);
        }
    }
}
