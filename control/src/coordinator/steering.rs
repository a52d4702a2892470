//! The next step of one gang, from its committed phase and its tasks' standings.

use std::collections::BTreeMap;

use muster_model::exit::Cause;
use muster_model::id::NodeId;
use muster_model::time::Time;

use super::launching::{live_members, tasks_on};
use super::work::{Kind, Link, Proposal, Work};
use super::{Coordinator, Output};
use crate::gang::GangId;
use crate::order::{Command, Member, Standing};
use crate::vc::attempt::Phase;
use crate::vc::{Current, End, Entry, VcState};

/// Whom an order goes to, and what its gang's phase calls for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) gang: &'a GangId,
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
            return self.forget(gang);
        };
        if self
            .work
            .get(gang)
            .is_some_and(|work| work.run != current.run)
        {
            self.forget(gang);
        }
        self.leave(&current, out);
        let wake = match current.gang.phase {
            Phase::Waiting => self.steer_reserving(&current, out),
            Phase::Placed { .. } => self.steer_placed(&current, out),
            Phase::Going => self.steer_live(&current, Kind::Go, None, out),
            Phase::Stopping { cause } => self.steer_live(&current, Kind::Stop, Some(cause), out),
            Phase::Voiding => {
                let cause = Some(Cause::AttemptCompleted);
                self.steer_live(&current, Kind::Stop, cause, out)
            }
            Phase::Ended => None,
        };
        self.wake_at(gang, wake);
    }

    fn forget(&mut self, gang: &GangId) {
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
        let mut settled: BTreeMap<NodeId, Vec<Member>> = BTreeMap::new();
        for (node, link) in work.links.iter_mut() {
            link.standing.retain(|member, standing| {
                let live = state.is_live(&run, &member.task, &member.uid);
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

    /// Before Go: launch everywhere, and Go once all are ready.
    fn steer_placed(&mut self, current: &Current<'_>, out: &mut Vec<Output>) -> Option<Time> {
        let wake = self.steer_live(current, Kind::Launch, None, out);
        let live = live_members(current);
        let policy = self.options.policy;
        let work = self.work.get_mut(&current.run.gang)?;
        let standings: Vec<Option<&Standing>> = live
            .iter()
            .map(|(node, member)| work.standing(node, member))
            .collect();
        let is = |wanted: &Standing| standings.iter().filter(|s| **s == Some(wanted)).count();
        let ready = is(&Standing::Ready) + is(&Standing::Running);
        let (all, gone) = (ready == live.len(), is(&Standing::Gone) > 0);
        if ready > 0 {
            work.ready_since.get_or_insert(self.now);
        }
        let barrier = work
            .ready_since
            .map(|since| since.plus_millis(policy.barrier_ms));
        let since = *work.launching_since.get_or_insert(self.now);
        let limit = barrier.unwrap_or_else(|| since.plus_millis(policy.launch_ms));
        let run = current.run.clone();
        let at_ms = self.wall.as_millis();
        if gone {
            let reason = "a node no longer had the reservation".to_owned();
            self.propose(
                &current.run.gang,
                Proposal::Void,
                Entry::Void { run, reason, at_ms },
                out,
            );
        } else if all && !live.is_empty() {
            self.propose(
                &current.run.gang,
                Proposal::Go,
                Entry::Go { run, at_ms },
                out,
            );
        } else if self.now >= limit {
            let cause = Cause::BarrierTimeout;
            let entry = Entry::Stopping {
                run,
                cause,
                by: None,
                at_ms,
            };
            self.propose(&current.run.gang, Proposal::Stopping, entry, out);
        } else {
            return Some(wake.map_or(limit, |wake| wake.min(limit)));
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
        let mut nodes: BTreeMap<NodeId, Vec<Member>> = BTreeMap::new();
        for (node, member) in live_members(current) {
            nodes.entry(node).or_default().push(member);
        }
        let mut wake: Option<Time> = None;
        for (node, members) in nodes {
            let target = Target {
                gang,
                node: &node,
                kind,
            };
            self.propose_ends(current, &target, &members, out);
            self.relaunch_absent(gang, &node, kind);
            let (disk_mb, grace_ms) = (
                self.options.policy.disk_mb,
                self.options.policy.stop_grace_ms,
            );
            let command = || match (kind, cause) {
                (Kind::Launch, _) => Command::Launch {
                    tasks: tasks_on(current, &node, disk_mb),
                    grace_ms,
                },
                (_, Some(cause)) => Command::Stop {
                    members,
                    cause,
                    grace_ms,
                },
                (_, None) => Command::Go { members },
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
    fn propose_ends(
        &mut self,
        current: &Current<'_>,
        target: &Target<'_>,
        members: &[Member],
        out: &mut Vec<Output>,
    ) {
        let Target { gang, node, kind } = *target;
        for member in members {
            let Some(work) = self.work.get(gang) else {
                return;
            };
            let of_phase = work.links.get(node).is_some_and(|link| link.kind == kind);
            let end = match work.standing(node, member) {
                Some(Standing::Ended(verdict)) => End::Exit(verdict.clone()),
                Some(Standing::Gone) if of_phase && kind != Kind::Launch => End::Gone,
                Some(_) | None => continue,
            };
            let entry = Entry::TaskEnded {
                run: current.run.clone(),
                task: member.task.clone(),
                uid: member.uid.clone(),
                end,
                at_ms: self.wall.as_millis(),
            };
            self.propose(gang, Proposal::Ended(member.uid.clone()), entry, out);
        }
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
        let Target { gang, node, kind } = *target;
        let policy = self.options.policy;
        let work = self.work.get_mut(gang)?;
        let run = work.run.clone();
        let links = &mut work.links;
        let link = links.get_or_insert_with(node.clone(), || {
            let linked = self.linked.entry(node.clone()).or_default();
            linked.insert(gang.clone());
            Link::new(kind)
        });
        let due = link.due(kind, policy.resend_ms, policy.resend_max_ms)?;
        if due > self.now {
            return Some(due);
        }
        if !self.nodes.contains(node) {
            // Its next report brings the gang back here.
            return None;
        }
        let seq = self.send(node, &run, command(), out);
        let link = self.work.get_mut(gang)?.links.get_mut(node)?;
        link.sent(self.now, kind, seq);
        link.due(kind, policy.resend_ms, policy.resend_max_ms)
    }
}
