//! The world: time, the network, the disks and the users.

mod checks;
mod cordons;
mod descriptions;
mod flood;
mod jobs;
mod leases;
mod machines;
mod reign;

use std::collections::{BTreeMap, BTreeSet};

use muster_control::coordinator::{self, CoordinatorOptions, Cordon, LeaderPolicy};
use muster_control::fence::{LedgerEpoch, Term};
use muster_control::lease::{Hearing, LeaseHolder, RenewalRequest, SilenceQuestion};
use muster_control::ledger::{self, Ledger, LedgerChange};
use muster_control::order::{Order, Tell};
use muster_control::vc::{AcceptedJob, TaskEnd, VcEntry};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{AttemptUid, NodeId, VcName};
use muster_model::node::{Capacity, Device};
use muster_model::time::Time;

use crate::executor::{DelayedWork, FakeExecutor};
use leases::Clock;
use reign::Reign;

/// A small generator of chance: the same seed, the same run.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A machine. Disk and executor outlive the agent.
#[derive(Debug)]
struct WorldMachine {
    disk: BTreeMap<String, Vec<u8>>,
    executor: FakeExecutor,
    ledger: Ledger,
    epoch: LedgerEpoch,
    /// Raised at each agent start: what was under way before is void.
    life: u64,
    holder: LeaseHolder,
    clock: Clock,
    /// No message comes or goes until then.
    cut_until: Time,
    /// Its agent is dead.
    is_down: bool,
}

#[derive(Clone, Debug)]
enum WorldEvent {
    Entry(usize, Box<VcEntry>),
    /// What the leader of this term wants to commit.
    Proposal(usize, u64, Box<VcEntry>),
    Order(NodeId, Box<Order>),
    Tell(NodeId, Box<Tell>),
    AskReport(NodeId),
    Executor(NodeId, u64, Box<DelayedWork>),
    Learned(NodeId, usize),
    Crash(NodeId),
    /// A device falls sick; none: all are well again.
    Device(NodeId, Option<u32>),
    /// From now on a node has so many devices.
    Shape(NodeId, u32),
    Election(usize),
    /// Nothing reaches the node, or leaves it, for so many milliseconds.
    Cut(NodeId, u64),
    /// The agent dies and comes back after so many milliseconds.
    Die(NodeId, u64),
    Start(NodeId),
    /// An admin keeps a node free, or no more.
    Cordon(NodeId, Option<Cordon>),
    /// A node hears whether it is kept free.
    Closed(NodeId),
    /// An admin describes the cluster so.
    Describe(Box<ClusterSpec>),
    /// A leader hears how it is described, or that it has heard an older one.
    Described(usize),
    Undescribed(usize),
    /// A node loses its power for so many milliseconds, and an admin may say so meanwhile.
    PowerOff(NodeId, u64),
    /// An admin says that a node is off.
    Off(NodeId),
    /// The leaders see who can be reached.
    Seen,
    /// Another node leads the `cluster` group.
    ClusterElection,
    /// The leaders look at silent nodes.
    Look,
    Silence(usize, SilenceQuestion),
    Silent(usize, SilenceQuestion, Option<bool>),
    Renew(NodeId, u64, RenewalRequest),
    Renewed(NodeId, u64, RenewalRequest, bool),
}

#[derive(Debug)]
pub(crate) struct World {
    chance: Chance,
    now: Time,
    faults_until: Time,
    events: BTreeMap<(Time, u64), WorldEvent>,
    count: u64,
    /// The virtual clusters.
    reigns: Vec<Reign>,
    machines: BTreeMap<NodeId, WorldMachine>,
    cordons: BTreeMap<NodeId, Cordon>,
    /// How the cluster is described.
    description: ClusterSpec,
    /// Nodes that were to be empty at some time.
    drained: BTreeSet<NodeId>,
    /// Task attempts whose end is committed.
    ended: BTreeMap<AttemptUid, TaskEnd>,
    hearing: Hearing,
    /// Tasks that were ended by their leases.
    lease_ends: usize,
    /// Tasks that their node had give way for another virtual cluster.
    evicted: BTreeSet<AttemptUid>,
}

/// What came about in a world.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Runs that were started.
    pub(crate) going: usize,
    /// Runs that had to give way.
    pub(crate) preempted: usize,
    /// Runs that had to leave their node.
    pub(crate) moved: usize,
    /// Tasks that ended with their node's power.
    pub(crate) off: usize,
    /// Tasks that were given up for the silence of their nodes.
    pub(crate) lost: usize,
    /// Tasks that jobs did not wait for.
    pub(crate) overlapped: usize,
    /// Tasks that were ended by their leases.
    pub(crate) lease_ends: usize,
    /// Tasks that gave way for another virtual cluster.
    pub(crate) evicted: usize,
}

impl Counts {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            going: self.going + other.going,
            preempted: self.preempted + other.preempted,
            moved: self.moved + other.moved,
            off: self.off + other.off,
            lost: self.lost + other.lost,
            overlapped: self.overlapped + other.overlapped,
            lease_ends: self.lease_ends + other.lease_ends,
            evicted: self.evicted + other.evicted,
        }
    }
}

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The node that has other devices, more or fewer of them while the faults last.
const CHANGING: &str = "n3";
const DEVICES: u32 = 3;
/// Of each virtual cluster.
const JOBS: u64 = 5;
/// Every other world has the first of them only.
const VCS: [&str; 2] = ["default", "other"];

fn capacity(node: &NodeId) -> Capacity {
    match node.as_str() {
        CHANGING => capacity_of(node, 2, "A100"),
        _ => capacity_of(node, DEVICES, "V100"),
    }
}

fn capacity_of(node: &NodeId, devices: u32, model: &str) -> Capacity {
    let device = |index| Device::simulated(format!("{node}-{index}"), index, model);
    Capacity {
        cpu: 8,
        memory_mb: 8192,
        devices: (0..devices).map(device).collect(),
        levels: Vec::new(),
        port_first: 100,
        port_last: 119,
    }
}

fn options(vc: &VcName, seed: u64) -> CoordinatorOptions {
    CoordinatorOptions {
        vc: vc.clone(),
        generation: 1,
        seed,
        policy: LeaderPolicy {
            min_run_ms: [0, 30_000][(seed % 2) as usize],
            ..LeaderPolicy::default()
        },
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let names = VCS.iter().take(1 + (seed % 2) as usize);
        let reigns = names.map(|name| Reign::new(name.parse().unwrap(), seed));
        let mut world = Self {
            chance: Chance(seed),
            now: Time::from_millis(1_000_000),
            faults_until: Time::default(),
            events: BTreeMap::new(),
            count: 0,
            reigns: reigns.collect(),
            machines: BTreeMap::new(),
            cordons: BTreeMap::new(),
            description: ClusterSpec::default(),
            drained: BTreeSet::new(),
            ended: BTreeMap::new(),
            hearing: Hearing::default(),
            lease_ends: 0,
            evicted: BTreeSet::new(),
        };
        world.description = world.shares();
        for name in NODES {
            world.build(name.parse().unwrap());
        }
        world
    }

    pub(crate) fn counts(&self) -> Counts {
        let ended = |as_: &TaskEnd| self.ended.values().filter(|end| *end == as_).count();
        let sum = |of: fn(&Reign) -> usize| self.reigns.iter().map(of).sum();
        Counts {
            going: sum(|reign| reign.going.len()),
            preempted: sum(|reign| reign.preempted.len()),
            moved: sum(|reign| reign.moved.len()),
            off: ended(&TaskEnd::Off),
            lost: ended(&TaskEnd::Lost),
            overlapped: ended(&TaskEnd::Overlapped),
            lease_ends: self.lease_ends,
            evicted: self.evicted.len(),
        }
    }

    /// The virtual clusters, by their numbers.
    fn vcs(&self) -> std::ops::Range<usize> {
        0..self.reigns.len()
    }

    fn vc_of(&self, name: &VcName) -> usize {
        let found = self.reigns.iter().position(|reign| reign.vc == *name);
        found.unwrap()
    }

    pub(crate) fn run(&mut self, faults_ms: u64, end_ms: u64) {
        let end = self.now.plus_millis(end_ms);
        self.faults_until = self.now.plus_millis(faults_ms);
        for vc in self.vcs() {
            self.at(0, WorldEvent::Election(vc));
        }
        for node in NODES {
            for _ in 0..self.chance.below(4) {
                let index = u32::try_from(self.chance.below(u64::from(DEVICES))).unwrap();
                let at = self.chance.below(faults_ms);
                self.at(at, WorldEvent::Device(node.parse().unwrap(), Some(index)));
            }
            self.at(faults_ms, WorldEvent::Device(node.parse().unwrap(), None));
            let crashes = self.chance.below(4);
            for _ in 0..crashes {
                let at = self.chance.below(faults_ms);
                self.at(at, WorldEvent::Crash(node.parse().unwrap()));
            }
        }
        for _ in 0..self.chance.below(3) {
            let at = self.chance.below(faults_ms);
            let vc = self.any_vc();
            self.at(at, WorldEvent::Election(vc));
            let at = self.chance.below(faults_ms);
            let devices = u32::try_from(self.chance.below(4)).unwrap();
            self.at(at, WorldEvent::Shape(CHANGING.parse().unwrap(), devices));
        }
        self.plan_cuts(faults_ms);
        self.plan_cordons(faults_ms);
        self.plan_descriptions(faults_ms);
        // Connections come back now and then, and at last for good.
        for at in (0..=faults_ms + 10_000).step_by(10_000) {
            for node in NODES {
                self.at(at, WorldEvent::AskReport(node.parse().unwrap()));
            }
        }
        for vc in self.vcs() {
            for i in 0..JOBS {
                self.submit(vc, i, faults_ms / 2);
            }
        }
        while !self.is_over() {
            assert!(
                self.now < end,
                "jobs did not end: {:#?}, or were not forgotten: {:?}",
                self.reigns
                    .iter()
                    .flat_map(|reign| reign.state.rows().map(|row| row.summary()))
                    .collect::<Vec<_>>(),
                self.machines
                    .values()
                    .map(|m| m.ledger.tasks())
                    .collect::<Vec<_>>()
            );
            self.advance();
            self.check();
        }
        self.come_to_rest();
        self.check_exits();
        for reign in &self.reigns {
            reign.check_failures();
            reign.check_charges();
            assert!(reign.coordinator.is_pristine(), "cells are held for nobody");
        }
    }

    fn any_vc(&mut self) -> usize {
        self.chance.below(self.reigns.len() as u64) as usize
    }

    /// Lets the leader hear of every node as it is now.
    fn come_to_rest(&mut self) {
        for node in NODES {
            self.at(1, WorldEvent::AskReport(node.parse().unwrap()));
        }
        while !self.events.is_empty() {
            self.advance();
            self.check();
        }
    }

    fn is_over(&self) -> bool {
        self.reigns.iter().all(Reign::is_over)
            && self.now > self.faults_until
            && self.machines.values().all(|m| m.ledger.tasks().is_empty())
    }

    fn faulty(&self) -> bool {
        self.now < self.faults_until
    }

    fn at(&mut self, delay_ms: u64, event: WorldEvent) {
        self.count += 1;
        let at = self.now.plus_millis(delay_ms);
        self.events.insert((at, self.count), event);
    }

    /// Puts a message on its way: late, lost or doubled while the faults last.
    fn post(&mut self, event: WorldEvent) {
        if !self.faulty() {
            return self.at(1, event);
        }
        for _ in 0..[0, 1, 1, 1, 2, 3][self.chance.below(6) as usize] {
            let slow = self.chance.one_in(6);
            let delay = self.chance.below(if slow { 20_000 } else { 50 });
            self.at(delay, event.clone());
        }
    }

    /// Lets the next thing happen: an event, or a deadline.
    fn advance(&mut self) {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let up = self.machines.values().filter(|machine| !machine.is_down);
        let nodes = up.filter_map(|machine| machine.ledger.deadline());
        let leases = self
            .machines
            .keys()
            .filter_map(|id| self.lease_deadline(id));
        let leaders = self.reigns.iter();
        let leaders = leaders.filter_map(|reign| reign.coordinator.deadline());
        let deadlines = nodes.chain(leases).chain(leaders);
        let deadline = deadlines.min();
        match (event, deadline) {
            (Some(event), Some(deadline)) if deadline < event => self.tick(deadline),
            (None, Some(deadline)) => self.tick(deadline),
            (Some(_), _) => {
                let ((at, _), event) = self.events.pop_first().unwrap();
                self.now = self.now.max(at);
                self.happen(event);
            }
            (None, None) => panic!("nothing is left to happen"),
        }
    }

    fn tick(&mut self, at: Time) {
        self.now = self.now.max(at);
        let due = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= self.now);
        let nodes: Vec<NodeId> = self
            .machines
            .iter()
            .filter(|(_, machine)| !machine.is_down && due(machine.ledger.deadline()))
            .map(|(id, _)| id.clone())
            .collect();
        let leaders = self
            .vcs()
            .filter(|vc| due(self.reigns[*vc].coordinator.deadline()));
        let leaders: Vec<usize> = leaders.collect();
        let ids = self.machines.keys();
        let leases = ids.filter(|id| due(self.lease_deadline(id)));
        let leases: Vec<NodeId> = leases.cloned().collect();
        for node in nodes {
            self.ledger(&node, ledger::LedgerInput::Tick);
        }
        for node in leases {
            self.leases_tick(&node);
        }
        for vc in leaders {
            self.lead(vc, coordinator::CoordinatorInput::Tick);
        }
    }

    fn happen(&mut self, event: WorldEvent) {
        let message_of = match &event {
            WorldEvent::Order(node, _)
            | WorldEvent::Tell(node, _)
            | WorldEvent::AskReport(node)
            | WorldEvent::Renew(node, ..)
            | WorldEvent::Renewed(node, _, _, true) => Some(node),
            _ => None,
        };
        if message_of.is_some_and(|node| self.is_cut(node)) {
            return;
        }
        match event {
            // It asks until somebody tells it.
            WorldEvent::Learned(node, vc) if self.is_cut(&node) => {
                self.at(1_000, WorldEvent::Learned(node, vc));
            }
            WorldEvent::Cut(node, long_ms) => self.cut(&node, long_ms),
            WorldEvent::Die(node, long_ms) => {
                if !self.machines[&node].is_down {
                    self.die(&node);
                    self.cut(&node, long_ms);
                    self.at(long_ms, WorldEvent::Start(node));
                }
            }
            WorldEvent::Start(node) => self.start(&node),
            WorldEvent::Cordon(node, cordon) => self.cordon(node, cordon),
            WorldEvent::Closed(node) => self.hear_cordon(&node),
            WorldEvent::Describe(description) => self.describe(*description),
            WorldEvent::Described(vc) => self.tell_description(vc),
            WorldEvent::Undescribed(vc) => self.undescribed(vc),
            WorldEvent::PowerOff(node, long_ms) => self.power_off(node, long_ms),
            WorldEvent::Off(node) => self.say_off(node),
            WorldEvent::Seen => self.seen(),
            WorldEvent::ClusterElection => self.cluster_elected(),
            WorldEvent::Look => self.look(),
            WorldEvent::Silence(vc, question) => self.silence(vc, question),
            WorldEvent::Silent(vc, question, silent) => self.silent(vc, &question, silent),
            WorldEvent::Renew(node, life, request) => self.renew(&node, life, request),
            WorldEvent::Renewed(node, life, request, granted) => {
                self.renewed(&node, life, &request, granted);
            }
            WorldEvent::Entry(vc, entry) => self.commit(vc, *entry),
            WorldEvent::Proposal(vc, term, entry) => self.decide(vc, term, *entry),
            WorldEvent::Order(node, order) => self.ledger(&node, ledger::LedgerInput::Order(order)),
            WorldEvent::Tell(node, tell) => {
                for vc in self.addressees(&tell) {
                    let now = self.now;
                    if let Some(watch) = &mut self.reigns[vc].watch {
                        watch.heard(now, &node);
                    }
                    let (node, tell) = (node.clone(), (*tell).clone());
                    self.lead(vc, coordinator::CoordinatorInput::Tell { node, tell });
                }
            }
            WorldEvent::AskReport(node) => self.ledger(&node, ledger::LedgerInput::Report(None)),
            WorldEvent::Executor(node, life, job) => self.execute(&node, life, *job),
            WorldEvent::Learned(node, vc) => {
                let reign = &self.reigns[vc];
                let learned = ledger::LedgerInput::Learned {
                    vc: reign.vc.clone(),
                    generation: 1,
                    term: Term(reign.term),
                };
                self.ledger(&node, learned);
            }
            WorldEvent::Crash(node) => self.crash(&node),
            WorldEvent::Device(node, index) => self.sicken(&node, index),
            WorldEvent::Shape(node, devices) => {
                let capacity = capacity_of(&node, devices, "A100");
                self.ledger(&node, ledger::LedgerInput::Capacity(capacity));
            }
            WorldEvent::Election(vc) => self.elect(vc),
        }
    }

    fn sicken(&mut self, id: &NodeId, index: Option<u32>) {
        let mut capacity = capacity(id);
        let device = index.and_then(|index| capacity.devices.get_mut(index as usize));
        if let Some(device) = device {
            device.fault = Some("sick".to_owned());
        }
        self.ledger(id, ledger::LedgerInput::Capacity(capacity));
    }

    /// Whom a node tells it: an answer who ordered, a report everyone.
    fn addressees(&self, tell: &Tell) -> Vec<usize> {
        match tell {
            Tell::Answer(answer) => vec![self.vc_of(&answer.vc)],
            Tell::Report(_) => self.vcs().collect(),
        }
    }

    /// A new leader: nothing is left of the old but the log.
    fn elect(&mut self, vc: usize) {
        let seed = self.chance.next();
        let term = self.reigns[vc].begin(seed);
        self.lead(vc, coordinator::CoordinatorInput::Elected { term });
        self.lead(vc, coordinator::CoordinatorInput::Leases(true));
        self.seen();
        self.lead(
            vc,
            coordinator::CoordinatorInput::Cordoned(self.cordons.clone()),
        );
        let until_known = self.chance.below(2_000);
        self.at(until_known, WorldEvent::Described(vc));
        for node in NODES {
            self.at(1, WorldEvent::AskReport(node.parse().unwrap()));
        }
    }

    /// The group commits after a while. If the leader falls before that, it may do so until the
    /// next one's first entry is in the log, or never.
    fn decide(&mut self, vc: usize, term: u64, entry: VcEntry) {
        let reign = &self.reigns[vc];
        let is_late = term < reign.elected;
        if term == reign.term || (self.chance.one_in(2) && !is_late) {
            self.commit(vc, entry);
        }
    }

    fn commit(&mut self, vc: usize, entry: VcEntry) {
        let entry = VcEntry::decode(&entry.encode().unwrap()).unwrap();
        let result = self.reigns[vc].apply(&entry);
        if let Ok(applied) = &result {
            self.note(vc, &entry);
            self.begin_watch(vc, applied);
        }
        if matches!(entry, VcEntry::TaskEnded { .. }) {
            self.machines.keys().for_each(|id| self.check_machine(id));
        }
        self.lead(vc, coordinator::CoordinatorInput::Applied(result));
    }

    /// Tells all leaders.
    fn lead_all(&mut self, input: &coordinator::CoordinatorInput) {
        for vc in self.vcs() {
            self.lead(vc, input.clone());
        }
    }

    fn lead(&mut self, vc: usize, input: coordinator::CoordinatorInput) {
        let mut out = Vec::new();
        let now = self.now;
        let reign = &mut self.reigns[vc];
        let both = now.into();
        reign
            .coordinator
            .handle(both, &reign.state, input, &mut out);
        let term = reign.term;
        for output in out {
            match output {
                coordinator::CoordinatorOutput::Propose(entry) => {
                    let delay = self.chance.below(20);
                    self.at(delay, WorldEvent::Proposal(vc, term, entry));
                    if self.faulty() && self.chance.one_in(100) {
                        self.at(delay / 2, WorldEvent::Election(vc));
                    }
                }
                coordinator::CoordinatorOutput::Send { node, order } => {
                    self.post(WorldEvent::Order(node, order))
                }
                coordinator::CoordinatorOutput::AskReport { node } => {
                    self.post(WorldEvent::AskReport(node))
                }
                // It is in no cluster.
                coordinator::CoordinatorOutput::Bind { .. } => {}
            }
        }
    }

    fn ledger(&mut self, id: &NodeId, input: ledger::LedgerInput) {
        let mut out = Vec::new();
        let now = self.now;
        let machine = self.machines.get_mut(id).unwrap();
        if machine.is_down {
            return;
        }
        machine
            .ledger
            .handle(now, input, &|port| port % 7 != 0, &mut out);
        let local = machine.clock.read(now);
        machine.holder.follow(local, machine.ledger.leased());
        let dies = self.faulty() && self.chance.one_in(300);
        let survives = if dies { self.chance.below(3) } else { u64::MAX };
        for (i, output) in out.into_iter().enumerate() {
            if i as u64 >= survives {
                // The agent dies half way through its outputs.
                return self.crash(id);
            }
            self.perform(id, output);
        }
        self.follow_leases(id);
        self.check_machine(id);
    }

    fn perform(&mut self, id: &NodeId, output: ledger::LedgerOutput) {
        match output {
            ledger::LedgerOutput::Persist(changes) => {
                let disk = &mut self.machines.get_mut(id).unwrap().disk;
                for change in changes {
                    match change {
                        LedgerChange::Put { key, value } => disk.insert(key, value),
                        LedgerChange::Delete { key } => disk.remove(&key),
                    };
                }
            }
            ledger::LedgerOutput::Tell(tell) | ledger::LedgerOutput::TellOne(_, tell) => {
                self.post(WorldEvent::Tell(id.clone(), Box::new(tell)));
            }
            ledger::LedgerOutput::Step(step) => {
                self.check_step(id, &step);
                self.begin_lease(id, &step);
                let life = self.machines[id].life;
                self.at(
                    0,
                    WorldEvent::Executor(id.clone(), life, Box::new(DelayedWork::Step(step))),
                );
            }
        }
    }

    fn execute(&mut self, id: &NodeId, life: u64, job: DelayedWork) {
        let machine = self.machines.get_mut(id).unwrap();
        if machine.life != life {
            return;
        }
        let (seen, later) = machine.executor.run(job, &mut self.chance);
        for (delay, job) in later {
            self.at(delay, WorldEvent::Executor(id.clone(), life, Box::new(job)));
        }
        for (uid, what) in seen {
            self.ledger(id, ledger::LedgerInput::Observed { uid, what });
        }
        self.check_machine(id);
    }
}
