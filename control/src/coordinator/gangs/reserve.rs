//! From a plan to a committed placement.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::job::Partition;
use muster_model::launch::Placement;
use muster_model::time::Time;
use muster_placement::gang::GangId as Number;

use super::ask::ask;
use super::link::{Kind, Link};
use super::steer::Target;
use super::work::{Proposal, Reserving};
use super::{Gangs, Parts};
use crate::coordinator::output::Output;
use crate::coordinator::planner::{Planned, Step};
use crate::gang::{GangId, Run, hash};
use crate::lease::Lease;
use crate::order::{Ask, Command, Member};
use crate::vc::attempt::Phase;
use crate::vc::{Current, Entry, Placed};

/// First pause after a refused plan, milliseconds; doubles up to the maximum.
const REPLAN_PAUSE_MS: u64 = 100;
const REPLAN_PAUSE_MAX_MS: u64 = 5_000;
/// After so many refusals in a row a gang looks for another place.
const REFUSED_MAX: u32 = 5;

impl Gangs {
    /// Does what was decided of a waiting gang.
    pub(in crate::coordinator) fn carry_out(
        &mut self,
        current: &Current<'_>,
        step: Step,
        parts: &mut Parts<'_>,
    ) {
        for victim in step.evict {
            self.evict(victim, current, parts);
        }
        let Some(plan) = step.reserve else {
            return;
        };
        let gang = &current.run.gang;
        if self.reserve(current, &plan, parts) {
            return self.steer(gang, parts);
        }
        // A device of the plan is not reported any more; the next report tells more.
        parts.inventory.end(gang);
    }

    /// Begins to reserve what was planned, and to claim what gangs of other virtual clusters would
    /// have to give up; false if a node does not have it any more.
    fn reserve(&mut self, current: &Current<'_>, plan: &Planned, parts: &mut Parts<'_>) -> bool {
        let mut reserving = Reserving {
            members: Vec::new(),
            instead: None,
            asks: BTreeMap::new(),
            victims: parts.inventory.foreign_tasks(&plan.victims),
            since: parts.context.now,
        };
        let tasks = current.job.attempt.tasks_of(current.gang);
        for (task, leaves) in tasks.zip(&plan.placement.pods) {
            let Some((placement, ask)) = ask(parts, current, &task.id, leaves) else {
                return false;
            };
            let node = placement.node.clone();
            reserving.members.push(placement);
            reserving.asks.entry(node).or_default().push(ask);
        }
        if !plan.victims.is_empty() {
            parts.inventory.take_from(&current.run.gang, &plan.victims);
        }
        debug_assert!(
            parts.inventory.holds(&current.run),
            "what is reserved has its cells"
        );
        let work = self.runs.begin(&current.run);
        work.reserving = Some(Box::new(reserving));
        work.links.clear();
        true
    }

    /// Sends the reservations; proposes the placement when all are in, or gives the plan up.
    pub(super) fn steer_reserving(
        &mut self,
        current: &Current<'_>,
        parts: &mut Parts<'_>,
    ) -> Option<Time> {
        let run = &current.run;
        let (policy, now) = (parts.context.options.policy, parts.context.now);
        let work = self.runs.of(run)?;
        let reserving = work.reserving.as_ref()?;
        if work.is_proposed(&Proposal::Placed) {
            return None;
        }
        let timeout = reserving.since.plus_millis(policy.round_timeout_ms);
        let refused = work.links.values().any(Link::is_refused);
        let mut nodes = reserving.asks.keys();
        if refused || nodes.any(|node| parts.liveness.is_unreachable(node)) {
            return Some(self.give_up(run, parts));
        }
        if now >= timeout {
            let answered = |node: &NodeId| work.links.get(node).is_some_and(|it| it.answered);
            let silent = reserving.asks.keys().filter(|node| !answered(node));
            parts.mute(silent.cloned().collect());
            return Some(self.give_up(run, parts));
        }
        let asks: Vec<(NodeId, Vec<Ask>)> = reserving.asks.clone().into_iter().collect();
        let mut victims = reserving.victims.clone();
        let mut wake = timeout;
        for (node, asks) in asks {
            let victims = victims.remove(&node).unwrap_or_default();
            let command = || Command::Reserve {
                job: current.job.accepted.key.clone(),
                asks,
                evictable: current.job.accepted.spec.is_opportunistic(),
                victims,
                ttl_ms: policy.reserve_ttl_ms,
            };
            let target = Target {
                run,
                node: &node,
                kind: Kind::Reserve,
            };
            let due = self.order(&target, command, parts);
            wake = wake.min(due.unwrap_or(wake));
        }
        if let Some(placed) = self.placement(current, parts) {
            let entry = Entry::Placed(Box::new(placed));
            parts.out.push(Output::Propose(Box::new(entry)));
            self.runs.of_mut(run)?.propose(Proposal::Placed);
            return None;
        }
        Some(wake)
    }

    /// The placement, once every node has granted its part.
    fn placement(&self, current: &Current<'_>, parts: &Parts<'_>) -> Option<Placed> {
        let work = self.runs.of(&current.run)?;
        let reserving = work.reserving.as_ref()?;
        let mut members = reserving.members.clone();
        let is_asked = |member: &Placement| {
            let mut asks = reserving.asks.get(&member.node).into_iter().flatten();
            asks.any(|ask| ask.member.uid == member.uid)
        };
        for member in members.iter_mut().filter(|member| is_asked(member)) {
            let link = work.links.get(&member.node).filter(|link| link.answered)?;
            member.ports.clone_from(link.granted.get(&member.uid)?);
        }
        let nodes: BTreeSet<&NodeId> = members.iter().map(|member| &member.node).collect();
        let epoch = |node: &NodeId| Some((node.clone(), parts.nodes.get(node)?.life.epoch));
        let ledgers = nodes.into_iter().map(epoch).collect::<Option<_>>()?;
        Some(Placed {
            run: current.run.clone(),
            members,
            ledgers,
            lease: lease_of(current, parts.liveness.allows_leases()),
            is_within: parts.inventory.is_within(&current.job.accepted.spec),
            instead: reserving.instead.as_ref().map(|it| it.reason.clone()),
            at_ms: parts.context.wall.as_millis(),
        })
    }

    /// Some nodes cannot be reached now, or can be again. Nobody waits for an answer that may never come,
    /// but where something may be running.
    pub(in crate::coordinator) fn look_elsewhere(
        &mut self,
        before: &BTreeSet<NodeId>,
        parts: &mut Parts<'_>,
    ) {
        let state = parts.context.state;
        let is_going = |gang: &&GangId| {
            let current = state.current(gang);
            current.is_some_and(|current| current.gang.phase == Phase::Going)
        };
        let changed = parts.liveness.unreachable().symmetric_difference(before);
        let linked = changed.flat_map(|node| self.runs.linked_to(node));
        let gangs = linked.filter(|gang| !is_going(gang));
        let gangs: BTreeSet<GangId> = gangs.cloned().collect();
        for gang in gangs {
            self.steer(&gang, parts);
        }
    }

    /// A placement was refused because the virtual cluster has given a cell of it back meanwhile.
    pub(in crate::coordinator) fn not_own(&mut self, run: &Run, parts: &mut Parts<'_>) {
        let Some(work) = self.runs.of_mut(run) else {
            return;
        };
        if work.proposed.remove(&Proposal::Placed).is_some() {
            let retry_at = self.give_up(run, parts);
            self.runs.wake_at(&run.gang, Some(retry_at));
        }
    }

    /// Sees to it that a gang gives way for one of the same virtual cluster. Asked again with every plan until
    /// it is gone.
    fn evict(&mut self, victim: Number, by: &Current<'_>, parts: &mut Parts<'_>) {
        let known = parts.inventory.known(victim);
        let known = known.map(|known| known.run.clone());
        let current = known.as_ref();
        let current = current.and_then(|run| parts.context.state.current(&run.gang));
        let Some(current) = current.filter(|current| Some(&current.run) == known.as_ref()) else {
            return;
        };
        match current.gang.phase {
            Phase::Waiting => self.call_off(&current, victim, parts),
            Phase::Placed { .. } | Phase::Going => {
                let by = by.job.accepted.key.clone();
                self.stop_run(&current.run, Cause::Preempted, Some(by), parts);
            }
            Phase::Stopping { .. } | Phase::Voiding | Phase::Ended => {}
        }
    }

    /// Has runs give way that are on cells which another virtual cluster was promised.
    pub(in crate::coordinator) fn vacate(&mut self, runs: &[Run], parts: &mut Parts<'_>) {
        for run in runs {
            let current = parts.context.state.current(&run.gang);
            let current = current.filter(|current| current.run == *run);
            let is_placed =
                |it: &Current<'_>| matches!(it.gang.phase, Phase::Placed { .. } | Phase::Going);
            if current.is_some_and(|it| is_placed(&it)) {
                self.stop_run(run, Cause::Preempted, None, parts);
            }
        }
    }

    /// Ends a reservation that is not proposed to be committed yet.
    fn call_off(&mut self, current: &Current<'_>, victim: Number, parts: &mut Parts<'_>) {
        let gang = &current.run.gang;
        let work = self.runs.get(gang);
        let is_open = work
            .is_some_and(|work| work.reserving.is_some() && !work.is_proposed(&Proposal::Placed));
        if is_open {
            let retry_at = self.give_up(&current.run, parts);
            parts.inventory.withdraw(victim);
            self.runs.wake_at(gang, Some(retry_at));
        }
    }

    /// Frees what was reserved, as far as that gets through, and pauses before the next plan.
    pub(super) fn give_up(&mut self, run: &Run, parts: &mut Parts<'_>) -> Time {
        let Some(work) = self.runs.of_mut(run) else {
            return parts.context.now;
        };
        let refused = work.refused + 1;
        let retry_at = self.unreserve(run, parts);
        let gang = &run.gang;
        if self.runs.next(gang).is_some() {
            parts.inventory.end_relocation(gang);
            self.to_relocate.insert(gang.clone());
            return retry_at;
        }
        match refused < REFUSED_MAX {
            true => parts.inventory.claim_again(gang),
            false => parts.inventory.end(gang),
        }
        self.refused.insert(gang.clone());
        parts.planner.look_at_all();
        retry_at
    }

    /// Has nodes free what was reserved. When it may be tried again.
    pub(super) fn unreserve(&mut self, run: &Run, parts: &mut Parts<'_>) -> Time {
        let (options, now) = (parts.context.options, parts.context.now);
        let Some(work) = self.runs.of_mut(run) else {
            return now;
        };
        let asks = work.reserving.take().map(|r| r.asks).unwrap_or_default();
        work.links.clear();
        let pause = (REPLAN_PAUSE_MS << work.refused.min(10)).min(REPLAN_PAUSE_MAX_MS);
        let name = format!("{}/{run}/{}", options.seed, work.refused);
        work.refused = work.refused.saturating_add(1);
        work.retry_at = now.plus_millis(pause / 2 + hash(&name) % (pause / 2));
        let retry_at = work.retry_at;
        for (node, asks) in asks {
            let members = asks.into_iter().map(|ask| ask.member);
            let command = Command::Stop {
                members: members.collect::<Vec<Member>>(),
                cause: Cause::AttemptCompleted,
                grace_ms: options.policy.stop_grace_ms,
            };
            parts.send(&node, run, command);
        }
        retry_at
    }
}

/// The lease that a gang is placed with: that of the round before, if it is placed in one, for who keeps
/// its place keeps its lease.
fn lease_of(current: &Current<'_>, allows_leases: bool) -> Option<Lease> {
    if current.gang.is_live() {
        return current.gang.lease;
    }
    match current.job.accepted.spec.partition {
        Partition::FailoverAfter { seconds } => allows_leases.then_some(Lease { seconds }),
        Partition::Hold | Partition::Overlap => None,
    }
}
