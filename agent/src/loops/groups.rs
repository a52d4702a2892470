//! The loop of this member: performs what its core says.
//!
//! It owns the core with all groups, the log store and the ways to others. What waits in its queue while the disk
//! syncs is made durable with one more sync, so many submissions at once cost little more than two.

use std::time::Duration;

use muster_consensus::{Host, NodeId, Output as Said, ReplicaId};
use muster_control::groups::{
    Event, Input, Keeper, Machine, MakeCoordinator, Outcome, Output, Parts,
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
use crate::groups::disk::{Disk, Done};
use crate::groups::handle::{Ends, Telling};
use crate::groups::message::{Asker, Carrier, Errand, Message};

/// Messages taken at once.
const BATCH_MAX: usize = 512;

/// The loop itself.
pub(crate) struct GroupsLoop {
    /// Ticks are counted by a clock that nobody sets.
    started: Instant,
    core: MemberCore,
    disk: Disk,
    node: NodeHandle,
    alarms: Alarms,
    queue: mpsc::Receiver<Message>,
    frames: mpsc::Receiver<(NodeId, Vec<u8>)>,
    telling: Telling,
    carrier: Option<Carrier>,
    /// The way to the leader of the `cluster` group, while this node is a member.
    asker: Option<Asker>,
    outputs: Vec<member::Output>,
}

impl std::fmt::Debug for GroupsLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupsLoop")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

/// What the loop is made of.
pub(crate) struct Made {
    /// When the host's clock was at 0.
    pub(crate) started: Instant,
    /// All groups.
    pub(crate) host: Host<Machine>,
    /// What the host said when it was opened.
    pub(crate) outputs: Vec<Said<Outcome>>,
    /// The log store.
    pub(crate) disk: Disk,
    /// Makes the coordinator of a virtual cluster.
    pub(crate) coordinator: MakeCoordinator,
    /// This node's ledger.
    pub(crate) node: NodeHandle,
    /// Where alarms are kept.
    pub(crate) alarms: Alarms,
}

impl GroupsLoop {
    pub(crate) fn new(made: Made, ends: Ends) -> Self {
        let keeper = Keeper::new(Parts {
            host: made.host,
            outputs: made.outputs,
            coordinator: made.coordinator,
        });
        Self {
            started: made.started,
            core: MemberCore::new(keeper, made.disk.id()),
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
        self.handle(member::Input::Tick);
        loop {
            let deadline = self.deadline();
            tokio::select! {
                message = self.queue.recv() => match message {
                    Some(message) => self.take_all(message),
                    None => return,
                },
                Some((from, bytes)) = self.frames.recv() => self.give(Input::Parcel { from, bytes }),
                done = self.disk.done() => self.wrote(done),
                () = sleep_until(deadline) => self.handle(member::Input::Tick),
            }
        }
    }

    /// Takes a message and whatever else waits by now.
    fn take_all(&mut self, first: Message) {
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

    fn take(&mut self, message: Message) {
        match message {
            Message::Input(input) => self.give(input),
            Message::Core(input) => {
                if matches!(input, member::Input::Left) {
                    self.carrier = None;
                    self.asker = None;
                }
                self.handle(input);
            }
            Message::Carrier(carrier) => self.carrier = Some(carrier),
            // Without a carrier the cluster was left meanwhile.
            Message::Asker(asker) => self.asker = self.carrier.is_some().then_some(asker),
            Message::Store(reply) => {
                // Who went away needs no answer.
                let _ = reply.send(self.disk.id());
            }
        }
    }

    fn wrote(&mut self, done: Done) {
        match done {
            Done::Written(number) => self.give(Input::Written(number)),
            Done::Refused(problem) => {
                tracing::error!(error = problem, "the log store cannot be written");
                self.give(Input::Refused(problem));
            }
        }
    }

    /// Something for the copies of groups.
    fn give(&mut self, input: Input) {
        self.handle(member::Input::Groups(input));
    }

    fn handle(&mut self, input: member::Input) {
        let now = self.now();
        let mut outputs = std::mem::take(&mut self.outputs);
        self.core.handle(now, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                member::Output::Groups(output) => self.perform(output),
                member::Output::Routing(record) => {
                    self.telling.routing.send_replace(record);
                }
                member::Output::Event(event) => {
                    self.alarms.note(now.wall, &event);
                    log_member(event);
                }
            }
        }
        self.outputs = outputs;
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Write(write) => self.disk.write(write),
            Output::Send { to, bytes } => {
                if let Some(carrier) = &self.carrier {
                    carrier(to, bytes);
                }
            }
            Output::Order { from, order } => self.node.order(from, *order),
            Output::Asked {
                from,
                vc,
                generation,
                term,
            } => self.node.asked(from, vc, generation, term),
            Output::Question { group, question } => match &self.asker {
                Some(asker) => asker(group, Errand::Silence(question)),
                None => self.give(Input::Silence {
                    group,
                    question,
                    silent: None,
                }),
            },
            Output::Bind {
                group,
                vc,
                known,
                binding,
            } => {
                if let Some(asker) = &self.asker {
                    asker(group, Errand::Bind { vc, binding, known });
                }
            }
            Output::Leads { group, term } => {
                tracing::debug!(group = group.0, term, "leads a group");
                self.telling.led.send_modify(|led| {
                    led.insert(group, term);
                });
            }
            Output::Led { group } => {
                tracing::info!(group = group.0, "another node leads a group, or none");
                self.telling.led.send_modify(|led| {
                    led.remove(&group);
                });
            }
            Output::Applied { .. } => self.telling.applied.send_modify(|count| *count += 1),
            Output::Problem(problem) => {
                self.telling.problem.send_replace(problem);
            }
            Output::Event(event) => log(event),
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

fn log_member(event: member::Event) {
    match event {
        member::Event::Succeeded { generation } => {
            tracing::warn!(
                generation,
                "another group decides for the cluster from now on"
            );
        }
        member::Event::CopiesChange { group, changes } => {
            tracing::info!(group = group.0, ?changes, "copies of a group change");
        }
        // These are alarms, which tell the log.
        member::Event::Raised(_)
        | member::Event::Cleared { .. }
        | member::Event::LeaderChanged { .. } => {}
    }
}

fn log(event: Event) {
    match event {
        Event::CopyEnded {
            group,
            replica,
            why,
        } => {
            let replica = Some(replica).filter(|it| *it != ReplicaId::EVERY);
            let (group, replica) = (group.0, replica.map(|it| it.0));
            tracing::info!(group, replica, ?why, "a copy has ended");
        }
        Event::NodeSilent(node) => tracing::warn!(%node, "a node with leased tasks is silent"),
        Event::LeasesOver(node) => {
            tracing::warn!(%node, "the leases of a silent node are over: its tasks are given up");
        }
        Event::Unreadable {
            group,
            index,
            problem,
        } => tracing::error!(
            group = group.0,
            index,
            problem,
            "an entry of a log cannot be read and is skipped"
        ),
        Event::Unwritable(problem) => tracing::error!(problem, "an entry cannot be written"),
        Event::TooLong { to } => {
            tracing::error!(node = to.0, "a word is longer than any node takes");
        }
    }
}

#[cfg(test)]
mod tests;
