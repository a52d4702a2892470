//! The loop of this member: performs what its core says.
//!
//! It owns the core with all groups, the log store and the ways to others. What waits in its queue while the disk
//! syncs is made durable with one more sync, so many submissions at once cost little more than two.

use std::time::Duration;

use muster_consensus::{Host, HostOutput as Said, NodeId, ReplicaId};
use muster_control::groups::{
    ApplyOutcome, GroupEvent, GroupHost, GroupHostInput, GroupHostOutput, GroupHostParts,
    GroupState, MakeCoordinator,
};
use muster_control::member::{self, MemberCore};
use muster_control::now::Now;
use muster_model::time::Time;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::node::NodeHandle;
use super::sleep_until;
use crate::alarms::Alarms;
use crate::clock;
use crate::groups::disk::{Done, LogDisk};
use crate::groups::handle::{LoopEnds, Telling};
use crate::groups::message::{ClusterAsker, ClusterCall, FrameCarrier, GroupsMessage};

/// Messages taken at once.
const BATCH_MAX: usize = 512;

/// The loop itself.
pub(crate) struct GroupsLoop {
    /// Ticks are counted by a clock that nobody sets.
    started: Instant,
    core: MemberCore,
    disk: LogDisk,
    node: NodeHandle,
    alarms: Alarms,
    queue: mpsc::Receiver<GroupsMessage>,
    frames: mpsc::Receiver<(NodeId, Vec<u8>)>,
    telling: Telling,
    carrier: Option<FrameCarrier>,
    /// The way to the leader of the `cluster` group, while this node is a member.
    asker: Option<ClusterAsker>,
    outputs: Vec<member::MemberOutput>,
}

impl std::fmt::Debug for GroupsLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupsLoop")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// What the loop is made of.
pub(crate) struct GroupLoopParts {
    /// When the host's clock was at 0.
    pub(crate) started: Instant,
    /// All groups.
    pub(crate) host: Host<GroupState>,
    /// What the host said when it was opened.
    pub(crate) outputs: Vec<Said<ApplyOutcome>>,
    /// The log store.
    pub(crate) disk: LogDisk,
    /// Makes the coordinator of a virtual cluster.
    pub(crate) coordinator: MakeCoordinator,
    /// This node's ledger.
    pub(crate) node: NodeHandle,
    /// Where alarms are kept.
    pub(crate) alarms: Alarms,
}

impl GroupsLoop {
    pub(crate) fn new(made: GroupLoopParts, ends: LoopEnds) -> Self {
        let group_host = GroupHost::new(GroupHostParts {
            host: made.host,
            outputs: made.outputs,
            coordinator: made.coordinator,
        });
        Self {
            started: made.started,
            core: MemberCore::new(group_host, made.disk.id()),
            disk: made.disk,
            node: made.node,
            alarms: made.alarms,
            queue: ends.queue,
            frames: ends.frames,
            telling: ends.telling,
            carrier: None,
            asker: None,
            outputs: Vec::new(),
        }
    }

    /// Runs until every handle is gone.
    pub(crate) async fn run(mut self) {
        self.handle(member::MemberInput::Tick);
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(message) => self.take_all(message),
                    None => return,
                },
                Some((from, bytes)) = self.frames.recv() => self.give(GroupHostInput::Envelope { from, bytes }),
                done = self.disk.done() => self.wrote(done),
                () = sleep_until(deadline) => self.handle(member::MemberInput::Tick),
            }
        }
    }

    /// Takes a message and whatever else waits by now.
    fn take_all(&mut self, first: GroupsMessage) {
        let mut next = Some(first);
        for _ in 0..BATCH_MAX {
            let Some(message) = next else { return };
            self.take(message);
            next = self.queue.try_recv().ok();
        }
        if let Some(last) = next {
            self.take(last);
        }
    }

    fn take(&mut self, message: GroupsMessage) {
        match message {
            GroupsMessage::Input(input) => self.give(input),
            GroupsMessage::Core(input) => {
                if matches!(input, member::MemberInput::Left) {
                    self.carrier = None;
                    self.asker = None;
                }
                self.handle(input);
            }
            GroupsMessage::Carrier(carrier) => self.carrier = Some(carrier),
            // Without a carrier the cluster was left meanwhile.
            GroupsMessage::Asker(asker) => self.asker = self.carrier.is_some().then_some(asker),
            GroupsMessage::Store(reply) => {
                // Who went away needs no answer.
                let _ = reply.send(self.disk.id());
            }
        }
    }

    fn wrote(&mut self, done: Done) {
        match done {
            Done::Written(number) => self.give(GroupHostInput::Written(number)),
            Done::Refused(problem) => {
                tracing::error!(error = problem, "the log store cannot be written");
                self.give(GroupHostInput::Refused(problem));
            }
        }
    }

    /// Something for the copies of groups.
    fn give(&mut self, input: GroupHostInput) {
        self.handle(member::MemberInput::Groups(input));
    }

    fn handle(&mut self, input: member::MemberInput) {
        let now = self.now();
        let mut outputs = std::mem::take(&mut self.outputs);
        self.core.handle(now, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                member::MemberOutput::Groups(output) => self.perform(output),
                member::MemberOutput::Routing(record) => {
                    self.telling.routing.send_replace(record);
                }
                member::MemberOutput::Event(event) => {
                    self.alarms.note(now.wall, &event);
                    log_member(event);
                }
            }
        }
        self.outputs = outputs;
    }

    fn perform(&mut self, output: GroupHostOutput) {
        match output {
            GroupHostOutput::Write(write) => self.disk.write(write),
            GroupHostOutput::Send { to, bytes } => {
                if let Some(carrier) = &self.carrier {
                    carrier(to, bytes);
                }
            }
            GroupHostOutput::Order { from, order } => self.node.order(from, *order),
            GroupHostOutput::Asked {
                from,
                vc,
                generation,
                term,
            } => self.node.asked(from, vc, generation, term),
            GroupHostOutput::Question { group, question } => match &self.asker {
                Some(asker) => asker(group, ClusterCall::Silence(question)),
                None => self.give(GroupHostInput::Silence {
                    group,
                    question,
                    silent: None,
                }),
            },
            GroupHostOutput::Bind {
                group,
                vc,
                known,
                binding,
            } => {
                if let Some(asker) = &self.asker {
                    asker(group, ClusterCall::Bind { vc, binding, known });
                }
            }
            GroupHostOutput::Leads { group, term } => {
                tracing::debug!(group = group.0, term, "leads a group");
                self.telling.led.send_modify(|led| {
                    led.insert(group, term);
                });
            }
            GroupHostOutput::Led { group } => {
                tracing::info!(group = group.0, "another node leads a group, or none");
                self.telling.led.send_modify(|led| {
                    led.remove(&group);
                });
            }
            GroupHostOutput::Applied { .. } => {
                self.telling.applied.send_modify(|count| *count += 1)
            }
            GroupHostOutput::Problem(problem) => {
                self.telling.problem.send_replace(problem);
            }
            GroupHostOutput::Event(event) => log(event),
        }
    }

    fn now(&self) -> Now {
        let passed = self.started.elapsed().as_micros();
        Now {
            steady: Time(u64::try_from(passed).unwrap_or(u64::MAX)),
            wall: clock::now(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let due = self.core.deadline()?;
        Some(self.started + Duration::from_micros(due.0))
    }
}

fn log_member(event: member::MemberEvent) {
    match event {
        member::MemberEvent::Succeeded { generation } => {
            tracing::warn!(
                generation,
                "another group decides for the cluster from now on"
            );
        }
        member::MemberEvent::CopiesChange { group, changes } => {
            tracing::info!(group = group.0, ?changes, "copies of a group change");
        }
        // These are alarms, which tell the log.
        member::MemberEvent::Raised(_)
        | member::MemberEvent::Cleared { .. }
        | member::MemberEvent::LeaderChanged { .. } => {}
    }
}

fn log(event: GroupEvent) {
    match event {
        GroupEvent::CopyEnded {
            group,
            replica,
            why,
        } => {
            let replica = Some(replica).filter(|it| *it != ReplicaId::EVERY);
            let (group, replica) = (group.0, replica.map(|it| it.0));
            tracing::info!(group, replica, ?why, "a copy has ended");
        }
        GroupEvent::NodeSilent(node) => tracing::warn!(%node, "a node with leased tasks is silent"),
        GroupEvent::LeasesOver(node) => {
            tracing::warn!(%node, "the leases of a silent node are over: its tasks are given up");
        }
        GroupEvent::Unreadable {
            group,
            index,
            problem,
        } => tracing::error!(
            group = group.0,
            index,
            problem,
            "an entry of a log cannot be read and is skipped"
        ),
        GroupEvent::Unwritable(problem) => tracing::error!(problem, "an entry cannot be written"),
        GroupEvent::TooLong { to } => {
            tracing::error!(node = to.0, "a word is longer than any node takes");
        }
    }
}

#[cfg(test)]
mod tests;
