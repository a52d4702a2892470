//! A machine: the cores that run on it, its disks, its containers and its clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use muster_consensus::{GroupId, Host, HostOptions, StoreId, Write};
use muster_control::answers::cluster::ClusterService;
use muster_control::cluster::ClusterMap;
use muster_control::coordinator::{self, Coordinator, LeaderPolicy};
use muster_control::fence::{LedgerEpoch, StartId};
use muster_control::groups::{self, GroupHost, GroupHostParts, MakeCoordinator, name};
use muster_control::ledger::{self, Ledger, LedgerChange, LedgerIdentity};
use muster_control::member::MemberCore;
use muster_control::member::alarms::Key;
use muster_control::node::NodeCore;
use muster_control::now::Now;
use muster_model::id::{AttemptUid, NodeId};
use muster_model::node::{Capacity, Device};
use muster_model::time::Time;
use muster_placement::decide::{self, Turns};

use super::asking::Asks;
use super::clock::MachineClocks;
use super::executor::SimExecutor;
use super::here::{Bodies, Here, Identity as Who, Slot};
use super::store::Store;
use super::tasks::Tasks;
use crate::sim::mesh::member;
use crate::sim::random::Random;

/// Decides in which order copies lose patience with a silent leader, as in the agent.
const SEED: u64 = 0;

/// What a machine does later, on its own.
#[derive(Clone)]
pub(super) enum MachineDue {
    /// The log store has written what it was given, or refuses it.
    Written,
    /// So has the ledger's.
    Persisted,
    /// It is looked whether the member that a question is asked leads still, if this try was not answered.
    Again(u64, u32),
    /// The question is asked of the next member, for this try came to nothing.
    Elsewhere(u64, u32),
    /// The term of a virtual cluster is asked for.
    Learn(GroupId),
    /// What a member does now and then.
    Duties,
    /// Somebody has waited for long enough.
    Passed(Slot<()>),
    /// Another member was asked this long ago.
    Late(u64),
}

impl std::fmt::Debug for MachineDue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Due")
    }
}

/// What a process has in memory.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) core: MemberCore,
    pub(super) node: NodeCore,
    /// Which life of the agent this is.
    pub(super) start: StartId,
    /// By the clock since boot.
    started: Time,
    /// What the log store is writing.
    pub(super) writing: Option<Write>,
    /// What the ledger wants done still, the first of it being persisted if that is going on.
    pub(super) wanted: VecDeque<ledger::LedgerOutput>,
    pub(super) persisting: Option<Vec<LedgerChange>>,
    pub(super) agenda: BTreeMap<(Time, u64), MachineDue>,
    pub(super) asks: Asks,
    pub(super) here: Here,
    pub(super) cluster_service: Arc<ClusterService<Here>>,
    pub(super) tasks: Tasks,
    /// Digest of what its mesh knew when the core was told last.
    pub(super) seen: Option<u64>,
    /// The newest epoch of each cell that its ledger has said.
    pub(super) cell_epochs: BTreeMap<u32, u64>,
    /// What it has said is wrong and not said is over.
    pub(super) alarms: BTreeSet<Key>,
}

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) id: usize,
    pub(super) name: NodeId,
    pub(super) clock: MachineClocks,
    pub(super) store: Store,
    /// Bodies of documents beside the logs.
    bodies: Bodies,
    pub(super) ledger: BTreeMap<String, Vec<u8>>,
    pub(super) epoch: LedgerEpoch,
    pub(super) executor: SimExecutor,
    pub(super) devices: u32,
    /// Since when its devices are not seen, if they are not.
    pub(super) blind: Option<Time>,
    /// Its logs are cut after so many entries, if not after as many as ever.
    pub(super) log_entries_max: Option<u64>,
    /// The state's disk refuses writes.
    pub(super) full: bool,
    /// Syncs take so much longer, µs.
    pub(super) slow_us: u64,
    /// The newest cluster map, on its disk.
    pub(super) kept: Option<ClusterMap>,
    pub(super) process: Option<Process>,
    /// Its process dies at the next word that it would say.
    pub(super) doomed: bool,
    count: u64,
}

impl Machine {
    pub(super) fn new(id: usize, devices: u32, random: &mut Random) -> Self {
        Self {
            id,
            name: name_of(id),
            clock: MachineClocks::new(random),
            store: Store::new(StoreId(random.next())),
            bodies: Bodies::default(),
            ledger: BTreeMap::new(),
            epoch: LedgerEpoch(random.next()),
            executor: SimExecutor::default(),
            devices,
            blind: None,
            log_entries_max: None,
            full: false,
            slow_us: 0,
            kept: None,
            process: None,
            doomed: false,
            count: 0,
        }
    }

    /// An agent starts. What its group host has to do at once comes with its first tick.
    pub(super) fn start(&mut self, now: Time, identity: Who, random: &mut Random) {
        let (cluster, me) = (identity.cluster, identity.me);
        let here = Here::new(identity, self.bodies.clone(), random.next());
        let mut outputs = Vec::new();
        let node = name::node(member(self.id));
        let mut options = HostOptions::new(node, self.store.id, SEED);
        options.log_entries_max = self.log_entries_max.unwrap_or(options.log_entries_max);
        let found = self.store.load();
        let machine = groups::GroupState::of;
        let host = Host::open(Time::default(), options, found, machine, &mut outputs);
        let group_host = GroupHost::new(GroupHostParts {
            host,
            outputs,
            coordinator: coordinator(random.next()),
        });
        let start = StartId(random.next());
        let identity = self.identity(start);
        let records = self.ledger.clone();
        let capacity = self.capacity();
        let ledger = match Ledger::recover(identity, records, capacity) {
            Ok(ledger) => ledger,
            Err(error) => panic!("n{} cannot read its ledger: {error}", self.id),
        };
        let started = self.clock.boot(now);
        self.process = Some(Process {
            core: MemberCore::new(group_host, self.store.id),
            node: NodeCore::new(self.clock.boot(now), ledger),
            start,
            started,
            writing: None,
            wanted: VecDeque::new(),
            persisting: None,
            agenda: BTreeMap::new(),
            asks: Asks::default(),
            cluster_service: Arc::new(ClusterService::new(cluster, me, here.clone())),
            here,
            tasks: Tasks::new(),
            seen: None,
            cell_epochs: BTreeMap::new(),
            alarms: BTreeSet::new(),
        });
    }

    /// The agent is gone. What was being written may have come to the disk.
    pub(super) fn stop(&mut self, random: &mut Random) {
        let Some(process) = self.process.take() else {
            return;
        };
        if let Some(write) = process.writing
            && random.below(2) == 0
            && !self.full
        {
            self.store.write(&write);
        }
        if let Some(changes) = process.persisting
            && random.below(2) == 0
            && !self.full
        {
            self.persist(changes);
        }
        self.doomed = false;
        self.executor.orphan(random);
    }

    /// What the ledger has is durable.
    pub(super) fn persist(&mut self, changes: Vec<LedgerChange>) {
        for change in changes {
            match change {
                LedgerChange::Put { key, value } => self.ledger.insert(key, value),
                LedgerChange::Delete { key } => self.ledger.remove(&key),
            };
        }
    }

    /// The tasks that its ledger has a place for.
    pub(super) fn placed(&self) -> BTreeSet<String> {
        let process = self.process.as_ref();
        let tasks = process.map(|it| it.node.ledger().tasks());
        let tasks = tasks.into_iter().flatten();
        tasks.map(|task| task.uid).collect()
    }

    /// Whether its ledger would hold a place for this task if the agent started again now.
    pub(super) fn holds_on_disk(&self, uid: &AttemptUid) -> bool {
        let rows = self.ledger.iter();
        let mut rows = rows.filter(|(key, _)| key.ends_with(uid.as_str()));
        rows.any(|(key, value)| {
            let row = [(key.clone(), value.clone())];
            let read = Ledger::recover(self.identity(StartId(0)), row, self.capacity());
            let tasks = read.map_or_else(|_| Vec::new(), |ledger| ledger.tasks());
            tasks.iter().any(|task| task.state == "Held")
        })
    }

    fn identity(&self, start: StartId) -> LedgerIdentity {
        LedgerIdentity {
            node: self.name.clone(),
            address: format!("10.0.{}.{}", self.id / 256, self.id % 256),
            epoch: self.epoch,
            start,
        }
    }

    /// What time it is, by its group host.
    pub(super) fn group_host_now(&self, now: Time) -> Now {
        let started = self.process.as_ref().map_or(Time(0), |it| it.started);
        let passed = self.clock.boot(now).micros_since(started);
        Now {
            steady: Time(passed),
            wall: self.clock.wall(now),
        }
    }

    /// Does something after so many microseconds.
    pub(super) fn later(&mut self, at: Time, due: MachineDue) {
        self.count += 1;
        let count = self.count;
        if let Some(process) = &mut self.process {
            process.agenda.insert((at, count), due);
        }
    }

    /// When its process wants to run, by the world's clock.
    pub(super) fn deadline(&self) -> Option<Time> {
        let process = self.process.as_ref()?;
        let core = process.core.deadline();
        let core = core.map(|at| Time(process.started.0 + at.0));
        let all = [
            core.map(|at| self.clock.when(at)),
            process.node.deadline().map(|at| self.clock.when(at)),
            process.agenda.first_key_value().map(|((at, _), _)| *at),
            self.executor.next(self.clock),
        ];
        all.into_iter().flatten().min()
    }

    /// Who leads a group, by what its own copy knows.
    pub(super) fn leader_seen(&self, group: GroupId) -> Option<usize> {
        let view = self.process.as_ref()?.core.groups().host().view(group)?;
        let leader = view.leader?;
        usize::try_from(leader.0).ok()
    }

    /// How much of a group's log its own copy has applied.
    pub(super) fn applied(&self, group: GroupId) -> Option<u64> {
        let view = self.process.as_ref()?.core.groups().host().view(group)?;
        Some(view.applied)
    }

    /// Its hardware, as its process sees it: what it has seen before and does not see now is sick.
    pub(super) fn capacity(&self) -> Capacity {
        let is_blind = self.blind.is_some();
        let known = self.process.as_ref();
        let known = known.is_some_and(|it| !it.node.ledger().capacity().devices.is_empty());
        let count = if is_blind && !known { 0 } else { self.devices };
        let fault = is_blind.then(|| "it is not there any more".to_owned());
        let device = |index| Device {
            memory_mb: 32_768,
            fault: fault.clone(),
            ..Device::simulated(format!("{}-{index}", self.name), index, "V100")
        };
        Capacity {
            cpu: 64,
            memory_mb: 262_144,
            devices: (0..count).map(device).collect(),
            levels: Vec::new(),
            port_first: 20_000,
            port_last: 20_999,
        }
    }
}

/// The name of a machine.
pub(super) fn name_of(id: usize) -> NodeId {
    match format!("n{id}").parse() {
        Ok(name) => name,
        Err(error) => panic!("bug in the simulator: {error}"),
    }
}

fn coordinator(seed: u64) -> MakeCoordinator {
    Box::new(move |vc, generation| {
        Coordinator::new(coordinator::CoordinatorOptions {
            vc: vc.clone(),
            generation,
            seed,
            policy: LeaderPolicy {
                placement: placement(seed),
                min_run_ms: 10_000 * (seed % 2),
                ..LeaderPolicy::default()
            },
        })
    })
}

/// Whose turn it is, mostly as where nothing else is said: but jobs fall overdue 288 times as soon, after five
/// minutes instead of a day.
fn placement(seed: u64) -> decide::DecisionPolicy {
    let usual = Turns::default();
    let soon = |ms: Option<u64>| ms.map(|ms| ms / 288);
    let turns = match seed / 2 % 6 {
        0 => Turns::strict(),
        1 => Turns::backfill(),
        _ => Turns {
            overdue_after_ms: soon(usual.overdue_after_ms),
            wide_overdue_after_ms: soon(usual.wide_overdue_after_ms),
            ..usual
        },
    };
    decide::DecisionPolicy {
        turns,
        ..decide::DecisionPolicy::default()
    }
}
