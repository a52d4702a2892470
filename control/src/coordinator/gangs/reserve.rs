//! From a plan to a committed placement.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::job::Partition;
use muster_model::launch::TaskPlacement;
use muster_model::time::Time;

use super::ask::ask;
use super::link::{GangLink, OrderKind};
use super::parts::GangContext;
use super::runs::{GangRuns, OrderTarget};
use super::work::{Proposal, Reserving};
use crate::coordinator::output::CoordinatorOutput;
use crate::coordinator::planner::Planned;
use crate::gang::{GangId, GangRun, hash};
use crate::lease::LeaseTime;
use crate::order::{GangCommand, ReserveAsk, RunMember};
use crate::vc::{Current, Placed, VcEntry};

/// First pause after a refused plan, milliseconds; doubles up to the maximum.
const REPLAN_PAUSE_MS: u64 = 100;
const REPLAN_PAUSE_MAX_MS: u64 = 5_000;
/// After so many refusals in a row a gang looks for another place.
const REFUSED_MAX: u32 = 5;
/// After more refusals in a row than these nobody is hurried.
const HURRIED_MAX: u32 = 3;

/// How far a reservation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reserved {
    /// It is to be looked at again then; none if that is for somebody else to say.
    LookAgain(Option<Time>),
    /// A node does not have its part, or does not answer: the plan is to be given up.
    Refused,
}

/// Reservations that came to nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// Gangs that gave a plan up since something last came free.
    refused: BTreeSet<GangId>,
}

impl Reservations {
    /// Frees what was reserved, as far as that gets through, and pauses before the next plan.
    pub(super) fn give_up(
        &mut self,
        run: &GangRun,
        runs: &mut GangRuns,
        parts: &mut GangContext<'_>,
    ) -> Time {
        let Some(work) = runs.of(run) else {
            return parts.context.now;
        };
        let refused = work.refused + 1;
        let retry_at = unreserve(run, runs, parts);
        let gang = &run.gang;
        match refused < REFUSED_MAX {
            true => parts.inventory.claim_again(gang),
            false => parts.inventory.end(gang),
        }
        self.refused.insert(gang.clone());
        parts.planner.look_at_all();
        retry_at
    }

    /// Something may have come free: a gang that was refused need not wait for the end of its pause. A
    /// gang that was refused often may be one of two that block each other: pauses set them apart.
    pub(super) fn try_again(&mut self, runs: &mut GangRuns, parts: &mut GangContext<'_>) {
        let now = parts.context.now;
        for gang in std::mem::take(&mut self.refused) {
            let Some(work) = runs.get_mut(&gang) else {
                continue;
            };
            let is_seldom = work.refused <= HURRIED_MAX;
            if is_seldom && work.reserving.is_none() && work.retry_at > now {
                work.retry_at = now;
                parts.planner.add(gang);
            }
        }
    }
}

/// Begins to reserve what was planned, and to claim what gangs of other virtual clusters would
/// have to give up; false if a node does not have it any more.
pub(super) fn reserve(
    current: &Current<'_>,
    plan: &Planned,
    runs: &mut GangRuns,
    parts: &mut GangContext<'_>,
) -> bool {
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
    let work = runs.begin(&current.run);
    work.reserving = Some(Box::new(reserving));
    work.links.clear();
    true
}

/// Sends the reservations; proposes the placement when all are in.
pub(super) fn steer_reserving(
    current: &Current<'_>,
    runs: &mut GangRuns,
    parts: &mut GangContext<'_>,
) -> Reserved {
    let run = &current.run;
    let (options, now) = (parts.context.options, parts.context.now);
    let policy = &options.policy;
    let Some(work) = runs.of(run) else {
        return Reserved::LookAgain(None);
    };
    let Some(reserving) = work.reserving.as_ref() else {
        return Reserved::LookAgain(None);
    };
    if work.is_proposed(&Proposal::Placed) {
        return Reserved::LookAgain(None);
    }
    let timeout = reserving.since.plus_millis(policy.round_timeout_ms);
    let refused = work.links.values().any(GangLink::is_refused);
    let mut nodes = reserving.asks.keys();
    if refused || nodes.any(|node| parts.liveness.is_unreachable(node)) {
        return Reserved::Refused;
    }
    if now >= timeout {
        let answered = |node: &NodeId| work.links.get(node).is_some_and(|it| it.answered);
        let silent = reserving.asks.keys().filter(|node| !answered(node));
        parts.mute(silent.cloned().collect());
        return Reserved::Refused;
    }
    let asks: Vec<(NodeId, Vec<ReserveAsk>)> = reserving.asks.clone().into_iter().collect();
    let mut victims = reserving.victims.clone();
    let mut wake = timeout;
    for (node, asks) in asks {
        let victims = victims.remove(&node).unwrap_or_default();
        let command = || GangCommand::Reserve {
            job: current.job.accepted.key.clone(),
            asks,
            evictable: current.job.accepted.spec.is_opportunistic(),
            victims,
            ttl_ms: policy.reserve_ttl_ms,
        };
        let target = OrderTarget {
            run,
            node: &node,
            kind: OrderKind::Reserve,
        };
        let due = runs.order(&target, command, parts);
        wake = wake.min(due.unwrap_or(wake));
    }
    if let Some(placed) = placement(current, runs, parts) {
        let entry = VcEntry::Placed(Box::new(placed));
        parts.out.push(CoordinatorOutput::Propose(Box::new(entry)));
        if let Some(work) = runs.of_mut(run) {
            work.propose(Proposal::Placed);
        }
        return Reserved::LookAgain(None);
    }
    Reserved::LookAgain(Some(wake))
}

/// The placement, once every node has granted its part.
fn placement(current: &Current<'_>, runs: &GangRuns, parts: &GangContext<'_>) -> Option<Placed> {
    let work = runs.of(&current.run)?;
    let reserving = work.reserving.as_ref()?;
    let mut members = reserving.members.clone();
    let is_asked = |member: &TaskPlacement| {
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
        is_within: parts
            .inventory
            .layout()
            .is_within(&current.job.accepted.spec),
        instead: reserving.instead.as_ref().map(|it| it.reason.clone()),
        at_ms: parts.context.wall.as_millis(),
    })
}

/// Has nodes free what was reserved. When it may be tried again.
pub(super) fn unreserve(run: &GangRun, runs: &mut GangRuns, parts: &mut GangContext<'_>) -> Time {
    let (options, now) = (parts.context.options, parts.context.now);
    let Some(work) = runs.of_mut(run) else {
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
        let command = GangCommand::Stop {
            members: members.collect::<Vec<RunMember>>(),
            cause: Cause::AttemptCompleted,
            grace_ms: options.policy.stop_grace_ms,
        };
        parts.send(&node, run, command);
    }
    retry_at
}

/// The lease that a gang is placed with: that of the round before, if it is placed in one, for who keeps
/// its place keeps its lease.
fn lease_of(current: &Current<'_>, allows_leases: bool) -> Option<LeaseTime> {
    if current.gang.is_live() {
        return current.gang.lease;
    }
    match current.job.accepted.spec.partition {
        Partition::FailoverAfter { seconds } => allows_leases.then_some(LeaseTime { seconds }),
        Partition::Hold | Partition::Overlap => None,
    }
}
