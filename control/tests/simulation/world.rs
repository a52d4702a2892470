//! The world: time, the network, the disks and the users.

mod checks;
mod cordons;
mod descriptions;
mod leases;

use std::collections::{BTreeMap, BTreeSet};

use muster_control::coordinator::{self, Coordinator, Cordon, Options, Policy};
use muster_control::fence::{LedgerEpoch, StartId, Term};
use muster_control::gang::{AttemptNo, GangId, JobId, Run};
use muster_control::lease::{Hearing, Holder, Question, Request, Watch};
use muster_control::ledger::{self, Change, Identity, Ledger};
use muster_control::order::{Order, Tell};
use muster_control::vc::{AcceptedJob, End, Entry, VcState};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{AttemptUid, JobKey, NodeId, VcName};
use muster_model::job::{JobSpec, Partition, Resources, RoleSpec};
use muster_model::node::{Capacity, Device, DeviceId};
use muster_model::state::{ExecutionType, PriorityClass};
use muster_model::time::Time;

use crate::executor::{Executor, Job, Phase};
use leases::Clock;

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
struct Machine {
    disk: BTreeMap<String, Vec<u8>>,
    executor: Executor,
    ledger: Ledger,
    epoch: LedgerEpoch,
    /// Raised at each agent start: what was under way before is void.
    life: u64,
    holder: Holder,
    clock: Clock,
    /// No message comes or goes until then.
    cut_until: Time,
    /// Its agent is dead.
    is_down: bool,
}

#[derive(Clone, Debug)]
enum Event {
    Entry(Box<Entry>),
    /// What the leader of this term wants to commit.
    Proposal(u64, Box<Entry>),
    Order(NodeId, Box<Order>),
    Tell(NodeId, Box<Tell>),
    AskReport(NodeId),
    Executor(NodeId, u64, Box<Job>),
    Learned(NodeId, u64),
    Crash(NodeId),
    /// A device falls sick; none: all are well again.
    Device(NodeId, Option<u32>),
    /// From now on a node has so many devices.
    Shape(NodeId, u32),
    Election,
    /// Nothing reaches the node, or leaves it, for so many milliseconds.
    Cut(NodeId, u64),
    /// The agent dies and comes back after so many milliseconds.
    Die(NodeId, u64),
    Start(NodeId),
    /// An admin keeps a node free, or no more.
    Cordon(NodeId, Option<Cordon>),
    /// An admin describes the cluster so.
    Describe(Box<ClusterSpec>),
    /// The leader hears how it is described, or that it has heard an older one.
    Described,
    Undescribed,
    /// A node loses its power for so many milliseconds, and an admin may say so meanwhile.
    PowerOff(NodeId, u64),
    /// An admin says that a node is off.
    Off(NodeId),
    /// The leader sees who can be reached.
    Seen,
    /// Another node leads the `cluster` group.
    ClusterElection,
    /// The leader looks at silent nodes.
    Look,
    Silence(Question),
    Silent(Question, Option<bool>),
    Renew(NodeId, u64, Request),
    Renewed(NodeId, u64, Request, bool),
}

#[derive(Debug)]
pub(crate) struct World {
    chance: Chance,
    now: Time,
    faults_until: Time,
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    state: VcState,
    log: Vec<Entry>,
    term: u64,
    /// The newest term whose leader's first entry is committed.
    elected: u64,
    coordinator: Coordinator,
    machines: BTreeMap<NodeId, Machine>,
    accepted: BTreeSet<JobKey>,
    placed: BTreeSet<(Run, AttemptUid)>,
    /// Where runs were placed.
    places: BTreeMap<Run, BTreeSet<NodeId>>,
    going: BTreeSet<Run>,
    /// Runs that were told to give way.
    preempted: BTreeSet<Run>,
    cordons: BTreeMap<NodeId, Cordon>,
    /// How the cluster is described.
    description: ClusterSpec,
    /// Nodes that were to be empty at some time.
    drained: BTreeSet<NodeId>,
    /// Runs that had to leave such a node.
    moved: BTreeSet<Run>,
    /// Task attempts whose end is committed.
    ended: BTreeMap<AttemptUid, End>,
    /// Jobs of which a task failed by itself.
    failed: BTreeSet<JobId>,
    newest: BTreeMap<GangId, (AttemptNo, u32)>,
    watch: Option<Watch>,
    hearing: Hearing,
    /// Tasks that were ended by their leases.
    lease_ends: usize,
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
        }
    }
}

const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// The node that has other devices, more or fewer of them while the faults last.
const CHANGING: &str = "n3";
const DEVICES: u32 = 3;
const JOBS: u64 = 5;

fn vc() -> VcName {
    "default".parse().unwrap()
}

fn capacity(node: &NodeId) -> Capacity {
    match node.as_str() {
        CHANGING => capacity_of(node, 2, "A100"),
        _ => capacity_of(node, DEVICES, "V100"),
    }
}

fn capacity_of(node: &NodeId, devices: u32, model: &str) -> Capacity {
    let device = |index| Device {
        id: DeviceId(format!("{node}-{index}")),
        index,
        model: model.to_owned(),
        memory_mb: 0,
        paths: Vec::new(),
        fault: None,
        simulated: true,
    };
    Capacity {
        cpu: 8,
        memory_mb: 8192,
        devices: (0..devices).map(device).collect(),
        levels: Vec::new(),
        port_first: 100,
        port_last: 119,
    }
}

fn options(seed: u64) -> Options {
    Options {
        vc: vc(),
        generation: 1,
        seed,
        policy: Policy::default(),
        placement: muster_placement::decide::Policy::default(),
        min_run_ms: [0, 30_000][(seed % 2) as usize],
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let options = options(seed);
        let mut world = Self {
            chance: Chance(seed),
            now: Time::from_millis(1_000_000),
            faults_until: Time::default(),
            events: BTreeMap::new(),
            count: 0,
            state: VcState::default(),
            log: Vec::new(),
            term: 0,
            elected: 0,
            coordinator: Coordinator::new(options),
            machines: BTreeMap::new(),
            accepted: BTreeSet::new(),
            placed: BTreeSet::new(),
            places: BTreeMap::new(),
            going: BTreeSet::new(),
            preempted: BTreeSet::new(),
            cordons: BTreeMap::new(),
            description: ClusterSpec::default(),
            drained: BTreeSet::new(),
            moved: BTreeSet::new(),
            ended: BTreeMap::new(),
            failed: BTreeSet::new(),
            newest: BTreeMap::new(),
            watch: None,
            hearing: Hearing::default(),
            lease_ends: 0,
        };
        for name in NODES {
            world.build(name.parse().unwrap());
        }
        world
    }

    pub(crate) fn counts(&self) -> Counts {
        let ended = |as_: &End| self.ended.values().filter(|end| *end == as_).count();
        Counts {
            going: self.going.len(),
            preempted: self.preempted.len(),
            moved: self.moved.len(),
            off: ended(&End::Off),
            lost: ended(&End::Lost),
            overlapped: ended(&End::Overlapped),
            lease_ends: self.lease_ends,
        }
    }

    pub(crate) fn run(&mut self, faults_ms: u64, end_ms: u64) {
        let end = self.now.plus_millis(end_ms);
        self.faults_until = self.now.plus_millis(faults_ms);
        self.at(0, Event::Election);
        for node in NODES {
            for _ in 0..self.chance.below(4) {
                let index = u32::try_from(self.chance.below(u64::from(DEVICES))).unwrap();
                let at = self.chance.below(faults_ms);
                self.at(at, Event::Device(node.parse().unwrap(), Some(index)));
            }
            self.at(faults_ms, Event::Device(node.parse().unwrap(), None));
            let crashes = self.chance.below(4);
            for _ in 0..crashes {
                let at = self.chance.below(faults_ms);
                self.at(at, Event::Crash(node.parse().unwrap()));
            }
        }
        for _ in 0..self.chance.below(3) {
            let at = self.chance.below(faults_ms);
            self.at(at, Event::Election);
            let at = self.chance.below(faults_ms);
            let devices = u32::try_from(self.chance.below(4)).unwrap();
            self.at(at, Event::Shape(CHANGING.parse().unwrap(), devices));
        }
        self.plan_cuts(faults_ms);
        self.plan_cordons(faults_ms);
        self.plan_descriptions(faults_ms);
        // Connections come back now and then, and at last for good.
        for at in (0..=faults_ms + 10_000).step_by(10_000) {
            for node in NODES {
                self.at(at, Event::AskReport(node.parse().unwrap()));
            }
        }
        for i in 0..JOBS {
            self.submit(i, faults_ms / 2);
        }
        while !self.is_over() {
            assert!(
                self.now < end,
                "jobs did not end: {:#?}, or were not forgotten: {:?}",
                self.state.summaries().collect::<Vec<_>>(),
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
        self.check_failures();
        self.check_charges();
        assert!(self.coordinator.is_pristine(), "cells are held for nobody");
    }

    /// Lets the leader hear of every node as it is now.
    fn come_to_rest(&mut self) {
        for node in NODES {
            self.at(1, Event::AskReport(node.parse().unwrap()));
        }
        while !self.events.is_empty() {
            self.advance();
            self.check();
        }
    }

    fn is_over(&self) -> bool {
        let all = u64::try_from(self.accepted.len()).unwrap() == JOBS;
        all && self.now > self.faults_until
            && self.state.summaries().all(|job| job.state().is_final())
            && self.machines.values().all(|m| m.ledger.tasks().is_empty())
    }

    fn faulty(&self) -> bool {
        self.now < self.faults_until
    }

    fn at(&mut self, delay_ms: u64, event: Event) {
        self.count += 1;
        let at = self.now.plus_millis(delay_ms);
        self.events.insert((at, self.count), event);
    }

    /// Puts a message on its way: late, lost or doubled while the faults last.
    fn post(&mut self, event: Event) {
        if !self.faulty() {
            return self.at(1, event);
        }
        for _ in 0..[0, 1, 1, 1, 2, 3][self.chance.below(6) as usize] {
            let slow = self.chance.one_in(6);
            let delay = self.chance.below(if slow { 20_000 } else { 50 });
            self.at(delay, event.clone());
        }
    }

    fn submit(&mut self, i: u64, within_ms: u64) {
        let job = AcceptedJob {
            key: format!("alice~job{i}").parse().unwrap(),
            uid: format!("uid-{i}").parse().unwrap(),
            spec: self.job_spec(),
            config_json: "{}".to_owned(),
            sealed_secrets: Vec::new(),
            submitted_ms: self.now.as_millis(),
        };
        let at = self.chance.below(within_ms);
        if self.chance.one_in(5) {
            let stop = Entry::SetExecution {
                job: job.key.clone(),
                value: ExecutionType::Stop,
                at_ms: self.now.as_millis() + at,
            };
            let later = at + self.chance.below(60_000);
            self.at(later, Event::Entry(Box::new(stop)));
        }
        self.at(at, Event::Entry(Box::new(Entry::Accept(Box::new(job)))));
    }

    fn job_spec(&mut self) -> JobSpec {
        let instances = [(); 2].map(|()| 1 + u32::try_from(self.chance.below(3)).unwrap());
        // So that every gang fits the empty machines.
        let most = |instances| if instances == 1 { 4 } else { 2 };
        let gpus = instances.map(|n| u32::try_from(self.chance.below(most(n))).unwrap());
        let mut role = |name: &str, i: usize| RoleSpec {
            name: name.parse().unwrap(),
            instances: instances[i],
            min_failed: [1, 1, -1, 2][self.chance.below(4) as usize],
            min_succeeded: [-1, 1, 2][self.chance.below(3) as usize],
            task_retry_count: 1,
            image: "image".to_owned(),
            image_auth: None,
            resources: Resources {
                cpu: 1,
                memory_mb: 512,
                gpu: gpus[i],
                ports: vec![("ssh".to_owned(), 1), ("http".to_owned(), 1)],
            },
            sku: None,
            pinned: None,
            affinity_group: None,
            near: None,
            shm_mb: None,
            infiniband: false,
            pre_commands: Vec::new(),
            entrypoint: "true".to_owned(),
            post_commands: Vec::new(),
        };
        let roles = vec![role("worker", 0), role("ps", 1)];
        let classes = [
            None,
            Some(PriorityClass::Oppo),
            Some(PriorityClass::Prod),
            Some(PriorityClass::Crit),
        ];
        JobSpec {
            vc: vc(),
            retry_count: i32::try_from(self.chance.below(3)).unwrap(),
            gang: !self.chance.one_in(3),
            priority: classes[self.chance.below(4) as usize],
            lazy: false,
            max_run_s: None,
            partition: [
                Partition::FailoverAfter { seconds: 15 },
                Partition::FailoverAfter { seconds: 15 },
                Partition::FailoverAfter { seconds: 30 },
                Partition::default(),
                Partition::Hold,
                Partition::Overlap,
            ][self.chance.below(6) as usize],
            roles,
            notes: Vec::new(),
        }
    }

    fn build(&mut self, id: NodeId) {
        let epoch = LedgerEpoch(self.chance.next());
        let ledger = self.recover(&id, epoch, BTreeMap::new());
        let machine = Machine {
            disk: BTreeMap::new(),
            executor: Executor::default(),
            ledger,
            epoch,
            life: 0,
            holder: Holder::default(),
            clock: Clock {
                rate: 990 + self.chance.below(21),
                offset: self.chance.below(1_000_000_000),
            },
            cut_until: Time::default(),
            is_down: false,
        };
        self.machines.insert(id.clone(), machine);
        self.started(&id);
    }

    fn recover(
        &mut self,
        id: &NodeId,
        epoch: LedgerEpoch,
        disk: BTreeMap<String, Vec<u8>>,
    ) -> Ledger {
        let identity = Identity {
            node: id.clone(),
            address: "10.0.0.1".to_owned(),
            epoch,
            start: StartId(self.chance.next()),
        };
        Ledger::recover(identity, disk, capacity(id)).unwrap()
    }

    fn started(&mut self, id: &NodeId) {
        self.ledger(id, ledger::Input::Started);
        let term = self.term;
        self.at(1, Event::Learned(id.clone(), term));
        self.at(2, Event::AskReport(id.clone()));
    }

    fn crash(&mut self, id: &NodeId) {
        if !self.machines[id].is_down {
            self.die(id);
            self.start(id);
        }
    }

    fn start(&mut self, id: &NodeId) {
        let machine = self.machines.get_mut(id).unwrap();
        machine.is_down = false;
        let (epoch, disk) = (machine.epoch, machine.disk.clone());
        let ledger = self.recover(id, epoch, disk);
        let now = self.now;
        let machine = self.machines.get_mut(id).unwrap();
        machine.ledger = ledger;
        let local = machine.clock.read(now);
        machine.holder.adopt(local, machine.ledger.leased());
        self.started(id);
    }

    /// The agent is gone; containers are not.
    fn die(&mut self, id: &NodeId) {
        let machine = self.machines.get_mut(id).unwrap();
        machine.life += 1;
        machine.is_down = true;
        machine.holder = Holder::default();
        machine.executor.crash(&mut self.chance);
        // Users' commands that ran go on; only their ends are still to come.
        let machine = &self.machines[id];
        let life = machine.life;
        let running: Vec<AttemptUid> = machine
            .executor
            .containers
            .iter()
            .filter(|(_, container)| matches!(container.phase, Phase::Running))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in running {
            let after = self.chance.below(10_000);
            self.at(
                after,
                Event::Executor(id.clone(), life, Box::new(Job::Finished(uid))),
            );
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
        let deadlines = nodes.chain(leases).chain(self.coordinator.deadline());
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
        let lead = due(self.coordinator.deadline());
        let ids = self.machines.keys();
        let leases = ids.filter(|id| due(self.lease_deadline(id)));
        let leases: Vec<NodeId> = leases.cloned().collect();
        for node in nodes {
            self.ledger(&node, ledger::Input::Tick);
        }
        for node in leases {
            self.leases_tick(&node);
        }
        if lead {
            self.lead(coordinator::Input::Tick);
        }
    }

    fn happen(&mut self, event: Event) {
        let message_of = match &event {
            Event::Order(node, _)
            | Event::Tell(node, _)
            | Event::AskReport(node)
            | Event::Renew(node, ..)
            | Event::Renewed(node, _, _, true) => Some(node),
            _ => None,
        };
        if message_of.is_some_and(|node| self.is_cut(node)) {
            return;
        }
        match event {
            // It asks until somebody tells it.
            Event::Learned(node, _) if self.is_cut(&node) => {
                let term = self.term;
                self.at(1_000, Event::Learned(node, term));
            }
            Event::Cut(node, long_ms) => self.cut(&node, long_ms),
            Event::Die(node, long_ms) => {
                if !self.machines[&node].is_down {
                    self.die(&node);
                    self.cut(&node, long_ms);
                    self.at(long_ms, Event::Start(node));
                }
            }
            Event::Start(node) => self.start(&node),
            Event::Cordon(node, cordon) => self.cordon(node, cordon),
            Event::Describe(description) => self.describe(*description),
            Event::Described => self.tell_description(),
            Event::Undescribed => self.undescribed(),
            Event::PowerOff(node, long_ms) => self.power_off(node, long_ms),
            Event::Off(node) => self.say_off(node),
            Event::Seen => self.seen(),
            Event::ClusterElection => self.cluster_elected(),
            Event::Look => self.look(),
            Event::Silence(question) => self.silence(question),
            Event::Silent(question, silent) => self.silent(&question, silent),
            Event::Renew(node, life, request) => self.renew(&node, life, request),
            Event::Renewed(node, life, request, granted) => {
                self.renewed(&node, life, &request, granted);
            }
            Event::Entry(entry) => self.commit(*entry),
            Event::Proposal(term, entry) => self.decide(term, *entry),
            Event::Order(node, order) => self.ledger(&node, ledger::Input::Order(order)),
            Event::Tell(node, tell) => {
                let now = self.now;
                if let Some(watch) = &mut self.watch {
                    watch.heard(now, &node);
                }
                self.lead(coordinator::Input::Tell { node, tell: *tell });
            }
            Event::AskReport(node) => self.ledger(&node, ledger::Input::Report),
            Event::Executor(node, life, job) => self.execute(&node, life, *job),
            Event::Learned(node, term) => self.ledger(
                &node,
                ledger::Input::Learned {
                    vc: vc(),
                    generation: 1,
                    term: Term(term),
                },
            ),
            Event::Crash(node) => self.crash(&node),
            Event::Device(node, index) => self.sicken(&node, index),
            Event::Shape(node, devices) => {
                let capacity = capacity_of(&node, devices, "A100");
                self.ledger(&node, ledger::Input::Capacity(capacity));
            }
            Event::Election => self.elect(),
        }
    }

    fn sicken(&mut self, id: &NodeId, index: Option<u32>) {
        let mut capacity = capacity(id);
        let device = index.and_then(|index| capacity.devices.get_mut(index as usize));
        if let Some(device) = device {
            device.fault = Some("sick".to_owned());
        }
        self.ledger(id, ledger::Input::Capacity(capacity));
    }

    /// A new leader: nothing is left of the old but the log.
    fn elect(&mut self) {
        self.term += 1;
        self.state = VcState::restore(&self.state.snapshot()).unwrap();
        let seed = self.chance.next();
        self.coordinator = Coordinator::new(options(seed));
        self.watch = None;
        self.lead(coordinator::Input::Elected {
            term: Term(self.term),
        });
        self.lead(coordinator::Input::Leases(true));
        self.seen();
        self.lead(coordinator::Input::Cordoned(self.cordons.clone()));
        let until_known = self.chance.below(2_000);
        self.at(until_known, Event::Described);
        for node in NODES {
            self.at(1, Event::AskReport(node.parse().unwrap()));
        }
    }

    /// The group commits after a while. If the leader falls before that, it may do so until the
    /// next one's first entry is in the log, or never.
    fn decide(&mut self, term: u64, entry: Entry) {
        let is_late = term < self.elected;
        if term == self.term || (self.chance.one_in(2) && !is_late) {
            self.commit(entry);
        }
    }

    fn commit(&mut self, entry: Entry) {
        let entry = Entry::decode(&entry.encode().unwrap()).unwrap();
        self.log.push(entry.clone());
        let result = self.state.apply(self.log.len() as u64, &entry);
        if let Ok(applied) = &result {
            self.note(&entry);
            self.begin_watch(applied);
        }
        if matches!(entry, Entry::TaskEnded { .. }) {
            self.machines.keys().for_each(|id| self.check_machine(id));
        }
        self.lead(coordinator::Input::Applied(result));
    }

    fn lead(&mut self, input: coordinator::Input) {
        let mut out = Vec::new();
        self.coordinator
            .handle(self.now, &self.state, input, &mut out);
        for output in out {
            match output {
                coordinator::Output::Propose(entry) => {
                    let delay = self.chance.below(20);
                    self.at(delay, Event::Proposal(self.term, entry));
                    if self.faulty() && self.chance.one_in(100) {
                        self.at(delay / 2, Event::Election);
                    }
                }
                coordinator::Output::Send { node, order } => self.post(Event::Order(node, order)),
                coordinator::Output::AskReport { node } => self.post(Event::AskReport(node)),
            }
        }
    }

    fn ledger(&mut self, id: &NodeId, input: ledger::Input) {
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

    fn perform(&mut self, id: &NodeId, output: ledger::Output) {
        match output {
            ledger::Output::Persist(changes) => {
                let disk = &mut self.machines.get_mut(id).unwrap().disk;
                for change in changes {
                    match change {
                        Change::Put { key, value } => disk.insert(key, value),
                        Change::Delete { key } => disk.remove(&key),
                    };
                }
            }
            ledger::Output::Tell(tell) => self.post(Event::Tell(id.clone(), Box::new(tell))),
            ledger::Output::Step(step) => {
                self.check_step(id, &step);
                self.begin_lease(id, &step);
                let life = self.machines[id].life;
                self.at(
                    0,
                    Event::Executor(id.clone(), life, Box::new(Job::Step(step))),
                );
            }
        }
    }

    fn execute(&mut self, id: &NodeId, life: u64, job: Job) {
        let machine = self.machines.get_mut(id).unwrap();
        if machine.life != life {
            return;
        }
        let (seen, later) = machine.executor.run(job, &mut self.chance);
        for (delay, job) in later {
            self.at(delay, Event::Executor(id.clone(), life, Box::new(job)));
        }
        for (uid, what) in seen {
            self.ledger(id, ledger::Input::Observed { uid, what });
        }
        self.check_machine(id);
    }
}
