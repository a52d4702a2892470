//! The cells between what nodes report and what is committed, without a leader around them.

mod judging;

use muster_model::cluster_spec::{CPU_LEAF_FIRST, ClusterSpec};
use muster_model::id::NodeId;
use muster_model::job::{JobEnding, JobSpec, Partition, Resources};
use muster_model::launch;
use muster_model::node::{Capacity, Device, DeviceLevel, Free};
use muster_model::time::Time;
use muster_placement::cells::CellEvent;
use muster_placement::decide::{self, Decision, DecisionPolicy};
use muster_placement::gang::{Leaf, Placement};

use super::*;
use crate::coordinator::tests::bench::role;
use crate::fence::{LedgerEpoch, StartId};
use crate::order::{FreeList, NodeReport};
use crate::vc::{AcceptedJob, JobDocument, Placed, TaskEnd, VcEntry};

struct Bench {
    state: VcState,
    index: u64,
    nodes: ReportedNodes,
    inventory: Inventory,
}

fn device(index: u32) -> Device {
    Device::simulated(format!("d{index}"), index, "V100")
}

/// A job of so many tasks of two devices each, two of them to a node of four.
fn job(name: &str, tasks: u32) -> AcceptedJob {
    let resources = Resources {
        cpu: 1,
        gpu: 2,
        ..Resources::default()
    };
    AcceptedJob {
        key: format!("alice~{name}").parse().unwrap(),
        uid: name.parse().unwrap(),
        spec: JobSpec {
            vc: "default".parse().unwrap(),
            retry_count: 0,
            gang: true,
            priority: None,
            lazy: false,
            max_run_s: None,
            ending: JobEnding::default(),
            partition: Partition::default(),
            roles: vec![role(tasks, resources)],
            warnings: Vec::new(),
        },
        document: JobDocument::default(),
        sealed_secrets: Vec::new(),
        submitted_ms: 1,
    }
}

fn described_so(description: Option<ClusterSpec>) -> Inventory {
    let mut inventory = Inventory::default();
    inventory
        .layout_mut()
        .describe(Some(description.unwrap_or_default()));
    inventory
}

impl Bench {
    fn new(description: Option<ClusterSpec>) -> Self {
        Self {
            state: VcState::default(),
            index: 0,
            nodes: ReportedNodes::default(),
            inventory: described_so(description),
        }
    }

    /// The node has these devices, and these of them are free.
    fn report(&mut self, name: &str, devices: &[u32], free: &[u32]) {
        self.hear(name, devices, free);
        self.inventory.settle(&self.nodes);
        self.audit();
    }

    /// The same, before anything is given back.
    fn hear(&mut self, name: &str, devices: &[u32], free: &[u32]) {
        let devices = devices.iter().copied().map(device).collect();
        self.hear_of(name, devices, Vec::new(), free);
    }

    /// The same of devices of any kind, in groups.
    fn hear_of(
        &mut self,
        name: &str,
        devices: Vec<Device>,
        levels: Vec<DeviceLevel>,
        free: &[u32],
    ) {
        let id: NodeId = name.parse().unwrap();
        let report = NodeReport {
            node: id.clone(),
            start: StartId(1),
            epoch: LedgerEpoch(1),
            address: String::new(),
            capacity: Capacity {
                cpu: 8,
                memory_mb: 1024,
                devices,
                levels,
                port_first: 1,
                port_last: 10,
            },
            free: FreeList {
                version: 1,
                free: Free {
                    cpu: 8,
                    memory_mb: 1024,
                    devices: free.iter().map(|i| (*i, device(*i).id)).collect(),
                    ports: 10,
                },
            },
            closed: None,
            has_strays: false,
            tasks: Vec::new(),
        };
        self.nodes.hear(Time::default(), &id, 1, report);
        let terms = Terms::default();
        self.inventory.update(&mut self.nodes, &self.state, &terms);
    }

    fn apply(&mut self, entry: &VcEntry) {
        self.index += 1;
        self.state.apply(self.index, entry).unwrap();
        let gangs: Vec<GangId> = self.inventory.numbers.keys().cloned().collect();
        for gang in gangs {
            let terms = Terms::default();
            self.inventory.account(&self.state, &gang, false, &terms);
        }
    }

    /// Places a job and commits it; gives its run.
    fn place(&mut self, job: AcceptedJob) -> GangRun {
        let placed = self.reserve(job);
        let run = placed.run.clone();
        self.apply(&VcEntry::Placed(Box::new(placed)));
        self.audit();
        run
    }

    /// Places a job that is yet to be committed.
    fn reserve(&mut self, job: AcceptedJob) -> Placed {
        self.apply(&VcEntry::Accept(Box::new(job)));
        let current = self.state.waiting().last().unwrap();
        let run = current.run.clone();
        let gang = self.inventory.demand(&current, &Terms::default()).unwrap();
        let cells = self.inventory.cells().unwrap();
        let decision = decide::decide(cells, &gang, &DecisionPolicy::default(), Time::default());
        let Decision::Place(grant) = decision else {
            panic!("no room: {decision:?}");
        };
        let tasks: Vec<TaskId> = current
            .job
            .attempt
            .tasks
            .iter()
            .map(|t| t.id.clone())
            .collect();
        let members = tasks.into_iter().zip(&grant.placement.pods);
        let members = members.map(|(task, leaves)| {
            let (node, leaves) = self.inventory.layout().place(leaves).unwrap();
            launch::TaskPlacement {
                uid: format!("{}-{}", current.job.accepted.uid, task.index)
                    .parse()
                    .unwrap(),
                task,
                node,
                address: String::new(),
                devices: Vec::new(),
                leaves,
                ports: Vec::new(),
            }
        });
        let members: Vec<launch::TaskPlacement> = members.collect();
        let ledgers = members.iter().map(|m| (m.node.clone(), LedgerEpoch(1)));
        let placed = Placed {
            run,
            ledgers: ledgers.collect(),
            members,
            lease: None,
            is_within: false,
            instead: None,
            at_ms: 1,
        };
        self.inventory
            .layout_mut()
            .note(CellEvent::Started { gang, grant });
        placed
    }

    /// The job's task is gone from its node, by what is committed.
    fn end(&mut self, run: &GangRun, index: u32) {
        let current = self.state.current(&run.gang).unwrap();
        let mut tasks = current.job.attempt.tasks.iter();
        let task = tasks.find(|task| task.id.index == index).unwrap();
        let place = task.live().unwrap();
        let entry = VcEntry::TaskEnded {
            run: run.clone(),
            task: task.id.clone(),
            uid: place.uid.clone(),
            end: TaskEnd::Gone,
            at_ms: 2,
        };
        self.apply(&entry);
        self.inventory.settle(&self.nodes);
        self.audit();
    }

    fn audit(&self) {
        assert_eq!(self.inventory.audit(&self.state, |_| false), Ok(()));
    }

    /// What is held in the cells, by task.
    fn held(&self) -> String {
        let cells = self.inventory.cells().unwrap();
        let name = |leaves: &Vec<Leaf>| {
            let address = |leaf: &Leaf| {
                let (node, address) = cells.address(*leaf);
                format!("{node}/{address}")
            };
            leaves.iter().map(address).collect::<Vec<_>>().join(" ")
        };
        let pods = |placement: &Placement| placement.pods.iter().map(name).collect::<Vec<_>>();
        let gangs = cells
            .gangs()
            .map(|(_, placement, _)| pods(placement).join(", "));
        gangs.collect::<Vec<_>>().join("; ")
    }

    fn usable(&self, node: &str) -> Vec<u32> {
        let cells = self.inventory.cells().unwrap();
        let leaves = cells.leaves_on(node).filter(|leaf| cells.is_usable(*leaf));
        leaves.map(|leaf| cells.address(leaf).1).collect()
    }
}

const ALL: &[u32] = &[0, 1, 2, 3];

#[test]
fn nodes_become_cells_with_places_for_tasks_without_devices() {
    let mut bench = Bench::new(None);
    bench.report("n1", &[0, 2], &[0, 2]);
    bench.report("n2", &[], &[]);
    let addresses = |name: &str| {
        let (devices, plain) = bench
            .usable(name)
            .into_iter()
            .partition::<Vec<u32>, _>(|address| *address < CPU_LEAF_FIRST);
        (devices, plain.len())
    };
    assert_eq!(addresses("n1"), (vec![0, 2], 128));
    assert_eq!(addresses("n2"), (vec![], 128));
}

#[test]
fn what_runs_is_adopted_where_it_runs_in_whatever_order_nodes_report() {
    for order in [["n1", "n2"], ["n2", "n1"]] {
        let mut bench = Bench::new(None);
        bench.report("n1", ALL, ALL);
        bench.report("n2", ALL, ALL);
        bench.place(job("x", 3));
        let before = bench.held();
        assert_eq!(before.matches('/').count(), 6, "{before}");
        bench.inventory.clear();
        bench.nodes = ReportedNodes::default();
        for name in order {
            bench.report(name, ALL, &[]);
        }
        assert_eq!(bench.held(), before);
    }
}

#[test]
fn pods_leave_one_by_one_once_their_nodes_say_that_they_are_free() {
    let mut bench = Bench::new(None);
    bench.report("n1", ALL, ALL);
    let run = bench.place(job("x", 2));
    assert_eq!(bench.held(), "n1/0 n1/1, n1/2 n1/3");
    bench.report("n1", ALL, &[]);
    bench.end(&run, 0);
    assert_eq!(bench.held(), "n1/0 n1/1, n1/2 n1/3", "not cleared yet");
    bench.inventory.layout_mut().take_roomier();
    bench.report("n1", ALL, &[0]);
    assert!(
        !bench.inventory.layout_mut().take_roomier(),
        "half of it is no room"
    );
    bench.report("n1", ALL, &[0, 1]);
    assert_eq!(bench.held(), ", n1/2 n1/3");
    assert!(bench.inventory.layout_mut().take_roomier());
    bench.end(&run, 1);
    assert_eq!(bench.held(), ", n1/2 n1/3");
    bench.report("n1", ALL, ALL);
    assert!(bench.inventory.is_pristine(), "{}", bench.held());
}

#[test]
fn what_runs_stays_when_devices_come_and_go() {
    let mut bench = Bench::new(None);
    bench.report("n1", ALL, ALL);
    let run = bench.place(job("x", 2));
    bench.report("n2", ALL, ALL);
    assert_eq!(bench.held(), "n1/0 n1/1, n1/2 n1/3");
    bench.report("n1", &[0, 1, 2], &[]);
    assert_eq!(bench.held(), "n1/0 n1/1, n1/2");
    bench.report("n1", ALL, &[]);
    assert_eq!(bench.held(), "n1/0 n1/1, n1/2 n1/3", "it is there again");
    bench.report("n1", &[0, 1], &[]);
    bench.end(&run, 0);
    bench.end(&run, 1);
    bench.report("n1", &[0, 1], &[0, 1]);
    assert!(bench.inventory.is_pristine(), "{}", bench.held());
}

#[test]
fn what_was_reserved_while_devices_came_and_went_has_them_once_it_is_committed() {
    let mut bench = Bench::new(None);
    bench.report("n1", ALL, ALL);
    let placed = bench.reserve(job("x", 2));
    for devices in [&[0, 1], ALL] {
        bench.hear("n1", devices, devices);
    }
    assert_eq!(bench.held(), "n1/0 n1/1, ");
    bench.apply(&VcEntry::Placed(Box::new(placed)));
    assert_eq!(bench.held(), "n1/0 n1/1, n1/2 n1/3");
    bench.audit();
}

#[test]
fn a_claim_outlives_a_node_that_joins() {
    let mut bench = Bench::new(None);
    bench.report("n1", ALL, ALL);
    bench.place(job("x", 2));
    let mut important = job("y", 1);
    important.spec.priority = Some(muster_model::state::PriorityClass::Crit);
    bench.apply(&VcEntry::Accept(Box::new(important)));
    let current = bench.state.waiting().next().unwrap();
    let gang = bench.inventory.demand(&current, &Terms::default()).unwrap();
    let number = gang.id;
    let cells = bench.inventory.cells().unwrap();
    let policy = DecisionPolicy::default();
    let Decision::Preempt { grant, .. } = decide::decide(cells, &gang, &policy, Time::default())
    else {
        panic!("x is no victim");
    };
    bench
        .inventory
        .layout_mut()
        .note(CellEvent::Preempting { gang, grant });
    let before = bench.held();
    bench.report("n0", ALL, ALL);
    assert!(bench.inventory.layout().is_preempting(number));
    assert_eq!(bench.held(), before);
}

fn described(skus: &str) -> Option<ClusterSpec> {
    let text = format!(
        "
physicalCluster:
  {skus}
  cellTypes:
    NODE: {{childCellType: V100, childCellNumber: 4, isNodeLevel: true}}
  physicalCells: [{{cellType: NODE, cellAddress: n1}}, {{cellType: NODE, cellAddress: n2}}]
virtualClusters:
  default: {{virtualCells: [{{cellType: NODE, cellNumber: 2}}]}}
"
    );
    Some(ClusterSpec::from_hived_yaml(&text).unwrap())
}

#[test]
fn described_machines_are_of_use_once_they_report_and_with_what_they_have() {
    let mut bench = Bench::new(described(""));
    bench.report("n1", &[0, 1, 3], &[0, 1, 3]);
    assert_eq!(bench.usable("n1"), [0, 1, 3]);
    assert_eq!(bench.usable("n2"), [0; 0]);
    bench.report("n3", ALL, ALL);
    assert!(!bench.inventory.layout().has_node(&"n3".parse().unwrap()));
    bench.report("n2", ALL, ALL);
    assert_eq!(bench.usable("n2"), ALL);
}

#[test]
fn what_the_description_serves_no_longer_is_adopted_all_the_same() {
    let mut bench = Bench::new(described(""));
    bench.report("n1", ALL, ALL);
    let mut asking = job("x", 2);
    asking.spec.roles[0].sku = Some("V100".to_owned());
    bench.place(asking);
    let before = bench.held();
    let skus = "skuTypes: {V100: {gpu: 1, memory: 8192Mi}}";
    bench.inventory = described_so(described(skus));
    bench.report("n1", ALL, &[]);
    assert_eq!(bench.held(), before);
}
