//! A machine: its node's core, the ledger's disk, and its containers, which outlive the agent.

use std::collections::{BTreeMap, VecDeque};

use muster_consensus as consensus;
use muster_control::fence::{LedgerEpoch, StartId, Term};
use muster_control::ledger::{
    ExecutorStep, Ledger, LedgerChange, LedgerIdentity, LedgerOutput, Observation,
};
use muster_control::node::{NodeCore, NodeInput, NodeOutputs, VcLeader};
use muster_control::order::Tell;
use muster_control::verdict;
use muster_model::exit::{Behavior, Cause, Verdict};
use muster_model::id::{AttemptUid, NodeId};
use muster_model::node::{Capacity, Device};
use muster_model::time::Time;

use super::bug;
use super::leader::VC;
use super::mail::SentOrder;
use super::part::Part;
use super::world::MACHINES;
pub(super) use crate::sim::cluster::executor::Phase;
use crate::sim::cluster::executor::{exit, failure};

#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) name: NodeId,
    pub(super) node: NodeCore,
    disk: BTreeMap<String, Vec<u8>>,
    pub(super) containers: BTreeMap<AttemptUid, Container>,
    /// How containers ended, whether anybody knows or not.
    pub(super) exits: BTreeMap<AttemptUid, i32>,
    now: Time,
    lives: u64,
    epoch: u64,
    /// The agent has not asked yet who leads; it started in this term.
    pub(super) unlearned: Option<u64>,
    /// It has not looked yet which containers there are.
    pub(super) is_blind: bool,
}

/// A container on its only device.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) phase: Phase,
    /// It was told to end, for this.
    pub(super) stop: Option<Cause>,
}

/// What happens to a container by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ContainerEvent {
    /// It is ready.
    Launched,
    /// It cannot be made ready.
    Failed,
    /// Its commands end, with this code.
    Exits(i32),
    /// It ends, for it was told to.
    Stopped,
}

/// What happens to a machine.
#[derive(Debug, Hash)]
pub(super) enum MachineInput {
    /// A leader's order.
    Order(Part<SentOrder>),
    /// The leader of this term asks for a report.
    Asked(u64),
    /// The agent hears who leads.
    Learned(u64),
    /// It looks which containers there are.
    Looks,
    /// Something happens to a container.
    Container(AttemptUid, ContainerEvent),
    /// What it waits for is due.
    Tick,
    /// The agent dies in this term, and starts again.
    Restarts(Death, u64),
    /// It does so in the midst of an order, when so many things that follow from it are done.
    DiesAt(Part<SentOrder>, usize, u64),
}

/// What is lost when an agent dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Death {
    /// Nothing but what it had in memory; launches under way left no container.
    Clean,
    /// Launches under way left containers.
    Messy,
    /// The ledger, too.
    Ledger,
    /// Whatever ran: the machine had no power.
    Power,
}

/// What was seen.
#[derive(Clone, Debug, Hash)]
pub(super) enum Fact {
    Created(AttemptUid),
    Ready(AttemptUid),
    Started(AttemptUid),
    /// Told to give way.
    Evicted(AttemptUid),
}

/// What comes out of one.
#[derive(Debug, Default)]
pub(super) struct MachineOutcome {
    /// To the leader of this term.
    pub(super) tells: Vec<(u64, Tell)>,
    pub(super) facts: Vec<Fact>,
    /// How many things followed at once.
    pub(super) steps: usize,
}

/// Of a machine.
pub(super) fn name(at: usize) -> NodeId {
    format!("n{at}").parse().unwrap_or_else(bug)
}

/// Of all machines.
pub(super) fn names() -> impl Iterator<Item = NodeId> {
    (0..MACHINES).map(name)
}

impl Machine {
    pub(super) fn new(name: NodeId) -> Self {
        let now = Time::from_millis(1_000_000);
        let (lives, epoch) = (1, 1);
        let node = start(&name, (lives, epoch), &BTreeMap::new(), now);
        let mut machine = Self {
            name,
            node,
            disk: BTreeMap::new(),
            containers: BTreeMap::new(),
            exits: BTreeMap::new(),
            now,
            lives,
            epoch,
            unlearned: Some(1),
            is_blind: true,
        };
        machine.feed(NodeInput::Started, &mut MachineOutcome::default());
        machine
    }

    pub(super) fn handle(&mut self, input: MachineInput) -> MachineOutcome {
        let mut out = MachineOutcome::default();
        match input {
            MachineInput::Order(sent) => self.feed(ordered(&sent), &mut out),
            MachineInput::Asked(term) => {
                let asked = NodeInput::Asked {
                    vc: VC.parse().unwrap_or_else(bug),
                    leader: leader(term),
                };
                self.feed(asked, &mut out);
            }
            MachineInput::Learned(term) => {
                self.unlearned = None;
                let learned = NodeInput::Learned {
                    vc: VC.parse().unwrap_or_else(bug),
                    leader: leader(term),
                };
                self.feed(learned, &mut out);
            }
            MachineInput::Looks => {
                self.is_blind = false;
                let found = self.containers.keys().cloned().collect();
                self.feed(NodeInput::Found(found), &mut out);
            }
            MachineInput::Container(uid, event) => self.happens(uid, event, &mut out),
            MachineInput::Tick => {
                let due = self.node.deadline();
                self.now = due.unwrap_or(self.now).max(self.now);
                self.feed(NodeInput::Tick, &mut out);
            }
            MachineInput::Restarts(death, term) => self.restart(death, term, &mut out),
            MachineInput::DiesAt(sent, steps, term) => {
                let outputs = self.ask(ordered(&sent));
                self.perform(outputs.into_iter().take(steps), &mut out);
                self.restart(Death::Clean, term, &mut out);
            }
        }
        out
    }

    /// Whether it has nothing to do any more with who led before this term: its ledger knows of the term and
    /// admits nothing of one before, and its agent tells things to a later leader.
    pub(super) fn is_past(&self, term: u64) -> bool {
        let vc = VC.parse().unwrap_or_else(bug);
        let known = self.node.ledger().fence(&vc);
        self.unlearned.is_none() && known.is_some_and(|fence| fence.term >= Term(term))
    }

    /// Whether it waits for anything.
    pub(super) fn waits(&self) -> bool {
        self.node.deadline().is_some()
    }

    fn restart(&mut self, death: Death, term: u64, out: &mut MachineOutcome) {
        self.lives += 1;
        let exits = &mut self.exits;
        self.containers.retain(|uid, container| {
            let is_made = match container.phase {
                Phase::Starting => death == Death::Messy,
                Phase::Ready | Phase::Running => death != Death::Power,
                Phase::Ended(_) => return true,
            };
            if is_made && matches!(container.phase, Phase::Starting) {
                container.phase = Phase::Ended(Box::new(verdict::lost()));
                exits.insert(uid.clone(), verdict::lost().code());
            }
            is_made
        });
        if death == Death::Ledger {
            self.disk.clear();
            self.epoch += 1;
        }
        let life = (self.lives, self.epoch);
        self.node = start(&self.name, life, &self.disk, self.now);
        self.unlearned = Some(term);
        self.is_blind = true;
        self.feed(NodeInput::Started, out);
    }

    fn happens(&mut self, uid: AttemptUid, event: ContainerEvent, out: &mut MachineOutcome) {
        let Some(container) = self.containers.get_mut(&uid) else {
            return;
        };
        let what = match event {
            ContainerEvent::Launched => {
                container.phase = Phase::Ready;
                out.facts.push(Fact::Ready(uid.clone()));
                Observation::Ready
            }
            ContainerEvent::Failed => {
                let verdict = Box::new(failure(250, Behavior::Transient));
                self.exits.insert(uid.clone(), 250);
                container.phase = Phase::Ended(verdict.clone());
                Observation::LaunchFailed(verdict)
            }
            ContainerEvent::Exits(code) => {
                let verdict = exit(code);
                container.end(verdict.clone());
                self.exits.insert(uid.clone(), code);
                Observation::Ended(Box::new(verdict))
            }
            ContainerEvent::Stopped => {
                let verdict = verdict::stopped(container.stop.unwrap_or(Cause::UserStop));
                container.end(verdict.clone());
                self.exits.insert(uid.clone(), verdict.code());
                Observation::Ended(Box::new(verdict))
            }
        };
        self.feed(NodeInput::Observed { uid, what }, out);
    }

    fn feed(&mut self, input: NodeInput, out: &mut MachineOutcome) {
        let outputs = self.ask(input);
        out.steps = outputs.len();
        self.perform(outputs, out);
    }

    fn ask(&mut self, input: NodeInput) -> Vec<LedgerOutput> {
        let mut outputs = NodeOutputs::default();
        self.node.handle(self.now, input, &|_| true, &mut outputs);
        outputs.ledger
    }

    /// Does what the ledger says, and what follows from that.
    fn perform(
        &mut self,
        outputs: impl IntoIterator<Item = LedgerOutput>,
        out: &mut MachineOutcome,
    ) {
        let mut outputs: VecDeque<LedgerOutput> = outputs.into_iter().collect();
        while let Some(output) = outputs.pop_front() {
            match output {
                LedgerOutput::Persist(changes) => {
                    changes.into_iter().for_each(|it| self.persist(it))
                }
                LedgerOutput::Tell(tell) => {
                    for (to, _) in self.node.addressees(&tell) {
                        out.tells.push((to.0, tell.clone()));
                    }
                }
                LedgerOutput::TellOne(vc, tell) => {
                    let to = self.node.leader(&vc);
                    out.tells.extend(to.map(|to| (to.0, tell)));
                }
                LedgerOutput::Step(step) => {
                    if let Some((uid, what)) = self.step(step, &mut out.facts) {
                        outputs.extend(self.ask(NodeInput::Observed { uid, what }));
                    }
                }
            }
        }
    }

    fn persist(&mut self, change: LedgerChange) {
        match change {
            LedgerChange::Put { key, value } => self.disk.insert(key, value),
            LedgerChange::Delete { key } => self.disk.remove(&key),
        };
    }

    fn step(
        &mut self,
        step: ExecutorStep,
        facts: &mut Vec<Fact>,
    ) -> Option<(AttemptUid, Observation)> {
        if !self.node.ledger().is_due(&step) {
            return None;
        }
        match step {
            ExecutorStep::Adopt(uid) => {
                let seen = self.containers.get(&uid).map(|it| &it.phase);
                let seen = match seen {
                    None | Some(Phase::Starting) => Observation::Absent,
                    Some(Phase::Ready) => Observation::Ready,
                    Some(Phase::Running) => Observation::Running,
                    Some(Phase::Ended(verdict)) => Observation::Ended(verdict.clone()),
                };
                Some((uid, seen))
            }
            ExecutorStep::Create(spec) => {
                let uid = spec.placement.uid;
                facts.push(Fact::Created(uid.clone()));
                let new = Container {
                    phase: Phase::Starting,
                    stop: None,
                };
                self.containers.entry(uid).or_insert(new);
                None
            }
            ExecutorStep::Go(uid) => {
                let container = self.containers.get_mut(&uid)?;
                if !matches!(container.phase, Phase::Ready) {
                    return None;
                }
                container.phase = Phase::Running;
                facts.push(Fact::Started(uid.clone()));
                Some((uid, Observation::Running))
            }
            ExecutorStep::Stop { uid, cause, .. } => {
                if cause == Cause::Preempted {
                    facts.push(Fact::Evicted(uid.clone()));
                }
                match self.containers.get_mut(&uid) {
                    None => Some((uid, Observation::Gone)),
                    Some(Container {
                        phase: Phase::Ended(verdict),
                        ..
                    }) => Some((uid, Observation::Ended(verdict.clone()))),
                    Some(container) => {
                        container.stop.get_or_insert(cause);
                        None
                    }
                }
            }
            ExecutorStep::Remove(uid) => {
                self.containers.remove(&uid);
                Some((uid, Observation::Gone))
            }
        }
    }
}

impl Container {
    /// Whether anything of it is on the device.
    pub(super) const fn lives(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    fn end(&mut self, verdict: Verdict) {
        self.phase = Phase::Ended(Box::new(verdict));
    }
}

fn start(
    name: &NodeId,
    (lives, epoch): (u64, u64),
    disk: &BTreeMap<String, Vec<u8>>,
    now: Time,
) -> NodeCore {
    let identity = LedgerIdentity {
        node: name.clone(),
        address: "10.0.0.1".to_owned(),
        epoch: LedgerEpoch(epoch),
        start: StartId(lives),
    };
    let ledger = Ledger::recover(identity, disk.clone(), capacity(name));
    NodeCore::new(now, ledger.unwrap_or_else(bug))
}

/// One device, and room for one task beside it.
fn capacity(name: &NodeId) -> Capacity {
    let device = Device {
        memory_mb: 32_768,
        ..Device::simulated(format!("{name}-0"), 0, "V100")
    };
    Capacity {
        cpu: 4,
        memory_mb: 4_096,
        devices: vec![device],
        levels: Vec::new(),
        port_first: 20_000,
        port_last: 20_003,
    }
}

fn ordered(sent: &SentOrder) -> NodeInput {
    NodeInput::Order {
        from: consensus::NodeId(sent.term),
        order: Box::new(sent.order.clone()),
    }
}

fn leader(term: u64) -> VcLeader {
    VcLeader {
        reign: (1, Term(term)),
        node: consensus::NodeId(term),
    }
}
