//! From a plan to a committed placement.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::exit::Cause;
use muster_model::id::{AttemptUid, NodeId, TaskId};
use muster_model::launch::Placement;
use muster_model::time::Time;
use muster_placement::gang::Leaf;

use super::launching::member_of;
use super::planning::{Due, Planned};
use super::steering::Target;
use super::work::{Kind, Link, Proposal, Reserving, Work};
use super::{Coordinator, Output};
use crate::gang::{GangId, Run, attempt_uid, hash};
use crate::order::{Ask, Command, Member};
use crate::vc::attempt::Phase;
use crate::vc::{Current, Entry, Placed, VcState};

/// First pause after a refused plan, milliseconds; doubles up to the maximum.
const REPLAN_PAUSE_MS: u64 = 100;
const REPLAN_PAUSE_MAX_MS: u64 = 5_000;
/// After so many refusals in a row a gang looks for another place.
const REFUSED_MAX: u32 = 5;

impl Coordinator {
    /// Begins to reserve what was planned, and to claim what gangs of other virtual clusters would
    /// have to give up; false if a node does not have it any more.
    pub(super) fn reserve(
        &mut self,
        state: &VcState,
        current: &Current<'_>,
        plan: &Planned,
    ) -> bool {
        let mut reserving = Reserving {
            members: Vec::new(),
            instead: None,
            asks: BTreeMap::new(),
            victims: self.inventory.foreign_tasks(&plan.victims),
            since: self.now,
        };
        for (task, leaves) in current
            .job
            .attempt
            .tasks_of(current.gang)
            .zip(&plan.placement.pods)
        {
            let Some((placement, ask)) = self.ask(state, current, &task.id, leaves) else {
                return false;
            };
            let node = placement.node.clone();
            reserving.members.push(placement);
            reserving.asks.entry(node).or_default().push(ask);
        }
        if !plan.victims.is_empty() {
            self.inventory.take_from(&current.run.gang, &plan.victims);
        }
        let run = current.run.clone();
        let work = self.work.entry(run.gang.clone());
        let work = work.or_insert_with(|| Work::new(run));
        work.reserving = Some(Box::new(reserving));
        work.links.clear();
        true
    }

    /// The name of a task attempt. After a recovery it is another one than any that lost entries gave to
    /// the same attempt.
    pub(super) fn uid_of(&self, current: &Current<'_>, task: &TaskId) -> AttemptUid {
        let job = current.job.accepted.uid.as_str();
        match self.options.generation {
            0 | 1 => attempt_uid(job, &current.run, task),
            later => attempt_uid(&format!("{job}/{later}"), &current.run, task),
        }
    }

    /// What one task is to be given, and its place; its ports come with the grant.
    pub(super) fn ask(
        &self,
        state: &VcState,
        current: &Current<'_>,
        task: &TaskId,
        leaves: &[Leaf],
    ) -> Option<(Placement, Ask)> {
        let job = &current.job.accepted;
        let role = job.spec.roles.iter().find(|role| role.name == task.role)?;
        let (node, leaves) = self.inventory.place(leaves)?;
        let known = self.nodes.get(&node)?;
        let placement = Placement {
            task: task.clone(),
            uid: self.uid_of(current, task),
            node,
            address: known.address.clone(),
            devices: self
                .inventory
                .devices(&known.capacity, &leaves, role.resources.gpu)?,
            leaves,
            ports: Vec::new(),
        };
        let held = state.own_cells().held();
        let epoch = |leaf: &u32| held.epoch_of(&placement.node, *leaf);
        let epochs = match self.is_within(&job.spec) {
            true => placement.leaves.iter().map(epoch).collect::<Option<_>>()?,
            false => Vec::new(),
        };
        let ask = Ask {
            member: member_of(&placement),
            cpu: role.resources.cpu,
            memory_mb: role.resources.memory_mb,
            devices: placement.devices.clone(),
            leaves: placement.leaves.clone(),
            epochs,
            ports: role.resources.ports.clone(),
        };
        Some((placement, ask))
    }

    /// Sends the reservations; proposes the placement when all are in, or gives the plan up.
    pub(super) fn steer_reserving(
        &mut self,
        current: &Current<'_>,
        out: &mut Vec<Output>,
    ) -> Option<Time> {
        let run = &current.run;
        let policy = self.options.policy;
        let work = self.work_of(run)?;
        let reserving = work.reserving.as_ref()?;
        if work.proposed.contains(&Proposal::Placed) {
            return None;
        }
        let timeout = reserving.since.plus_millis(policy.round_timeout_ms);
        let refused = work.links.values().any(Link::is_refused);
        let mut nodes = reserving.asks.keys();
        if refused || nodes.any(|node| self.unreachable.contains(node)) {
            return Some(self.give_up(run, out));
        }
        if self.now >= timeout {
            let answered = |node: &NodeId| work.links.get(node).is_some_and(|it| it.answered);
            let silent = reserving.asks.keys().filter(|node| !answered(node));
            let silent: Vec<NodeId> = silent.cloned().collect();
            self.mute(silent, out);
            return Some(self.give_up(run, out));
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
            let due = self.order(&target, command, out);
            wake = wake.min(due.unwrap_or(wake));
        }
        if let Some(placed) = self.placement(current) {
            out.push(Output::Propose(Box::new(Entry::Placed(Box::new(placed)))));
            self.work_of_mut(run)?.proposed.add(Proposal::Placed);
            return None;
        }
        Some(wake)
    }

    /// The placement, once every node has granted its part.
    fn placement(&self, current: &Current<'_>) -> Option<Placed> {
        let work = self.work_of(&current.run)?;
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
        let epoch = |node: &NodeId| Some((node.clone(), self.nodes.get(node)?.life.epoch));
        let ledgers = nodes.into_iter().map(epoch).collect::<Option<_>>()?;
        Some(Placed {
            run: current.run.clone(),
            members,
            ledgers,
            lease: self.lease_of(current),
            is_within: self.is_within(&current.job.accepted.spec),
            instead: reserving.instead.as_ref().map(|it| it.reason.clone()),
            at_ms: self.wall.as_millis(),
        })
    }

    /// Some nodes cannot be reached now, or can be again. Nobody waits for an answer that may never come,
    /// but where something may be running.
    pub(super) fn look_elsewhere(
        &mut self,
        state: &VcState,
        before: &BTreeSet<NodeId>,
        out: &mut Vec<Output>,
    ) {
        let is_going = |gang: &&GangId| {
            let current = state.current(gang);
            current.is_some_and(|current| current.gang.phase == Phase::Going)
        };
        let changed = self.unreachable.symmetric_difference(before);
        let linked = changed.filter_map(|node| self.linked.get(node)).flatten();
        let gangs = linked.filter(|gang| !is_going(gang));
        let gangs: BTreeSet<GangId> = gangs.cloned().collect();
        for gang in gangs {
            self.steer(state, &gang, out);
        }
    }

    /// Nothing is placed on nodes that have not answered before they say something. The mesh may hold them
    /// for alive, for it goes by what others hear: the gang would be placed there again and again.
    pub(super) fn mute(&mut self, silent: Vec<NodeId>, out: &mut Vec<Output>) {
        for node in silent {
            self.nodes.mark_mute(self.now, &node);
            out.push(Output::AskReport { node });
        }
    }

    /// Frees what was reserved, as far as that gets through, and pauses before the next plan.
    pub(super) fn give_up(&mut self, run: &Run, out: &mut Vec<Output>) -> Time {
        let Some(work) = self.work_of_mut(run) else {
            return self.now;
        };
        let refused = work.refused + 1;
        let retry_at = self.unreserve(run, out);
        let gang = &run.gang;
        if self.mends.contains_key(gang) {
            self.inventory.end_mend(gang);
            self.to_mend.insert(gang.clone());
            return retry_at;
        }
        match refused < REFUSED_MAX {
            true => self.inventory.claim_again(gang),
            false => self.inventory.end(gang),
        }
        self.refused.insert(gang.clone());
        self.plan.due(Due::All);
        retry_at
    }

    /// Has nodes free what was reserved. When it may be tried again.
    pub(super) fn unreserve(&mut self, run: &Run, out: &mut Vec<Output>) -> Time {
        let (seed, now) = (self.options.seed, self.now);
        let Some(work) = self.work_of_mut(run) else {
            return now;
        };
        let asks = work.reserving.take().map(|r| r.asks).unwrap_or_default();
        work.links.clear();
        let pause = (REPLAN_PAUSE_MS << work.refused.min(10)).min(REPLAN_PAUSE_MAX_MS);
        let name = format!("{seed}/{run}/{}", work.refused);
        work.refused = work.refused.saturating_add(1);
        work.retry_at = now.plus_millis(pause / 2 + hash(&name) % (pause / 2));
        let retry_at = work.retry_at;
        for (node, asks) in asks {
            let command = Command::Stop {
                members: asks
                    .into_iter()
                    .map(|ask| ask.member)
                    .collect::<Vec<Member>>(),
                cause: Cause::AttemptCompleted,
                grace_ms: self.options.policy.stop_grace_ms,
            };
            self.send(&node, run, command, out);
        }
        retry_at
    }
}
