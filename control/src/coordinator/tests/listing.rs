//! Which nodes the leader lists, and what it says of each.

use muster_model::known_node::KnownNode;
use muster_model::node::{Device, DeviceId};
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::vc::Amount;

use super::*;
use crate::coordinator::Cordon;

/// A description that names one machine.
const ONE_MACHINE: &str = "physicalCluster:
  skuTypes: {C: {cpu: 4}}
  cellTypes: {N: {childCellType: C, childCellNumber: 1, isNodeLevel: true}}
  physicalCells: [{cellType: N, cellAddress: n1}]
virtualClusters: {default: {virtualCells: [{cellType: N, cellNumber: 1}]}}";
const ALL: [&str; 3] = ["n1", "n2", "n3"];

/// The list, of three members of which only the first two have reported.
fn listed(bench: &Bench) -> Vec<KnownNode> {
    let members = ALL.map(node);
    let silence_ms = |id: &NodeId| if *id == node("n1") { 7_000 } else { 0 };
    bench
        .coordinator
        .known_nodes(members.iter().collect(), silence_ms)
}

/// Why nothing new is placed on a node.
fn why(bench: &Bench, name: &str) -> String {
    let listed = listed(bench);
    let found = listed.iter().find(|known| known.id == node(name));
    found.unwrap().closed.join("; ")
}

#[test]
fn a_member_that_was_not_heard_is_listed_and_said_to_be() {
    let bench = Bench::new();
    let listed = listed(&bench);
    let names: Vec<&str> = listed.iter().map(|known| known.id.as_str()).collect();
    assert_eq!(names, ALL);
    let heard = |known: &KnownNode| known.has.as_ref().map(|has| has.silent_ms);
    let heard: Vec<_> = listed.iter().map(heard).collect();
    assert_eq!(heard, [Some(7_000), Some(0), None]);
    assert!(why(&bench, "n3").contains("has not heard yet"));
    assert_eq!(why(&bench, "n1"), "");
}

#[test]
fn what_is_in_use_is_so_for_all_virtual_clusters() {
    let mut bench = Bench::new();
    let device = |index: u32, fault: Option<&str>| Device {
        fault: fault.map(str::to_owned),
        ..Device::simulated(format!("GPU-{index}"), index, "Tesla V100")
    };
    let mut report = bench.report_of("n1", Vec::new(), None);
    report.capacity.devices = vec![device(0, None), device(1, None), device(2, Some("Xid 79"))];
    // By the ledger's word; which virtual cluster has the rest this leader need not know.
    report.free = FreeList {
        version: 2,
        free: Free {
            cpu: 1,
            memory_mb: 1000,
            devices: vec![(1, DeviceId("GPU-1".to_owned()))],
            ports: 1,
        },
    };
    bench.tell_report(report);
    let listed = listed(&bench);
    let has = listed[0].has.as_ref().unwrap();
    let amount = |cpu, memory_mb, gpu| Amount {
        cpu,
        memory_mb,
        gpu,
    };
    assert_eq!(has.share.total, amount(CPU, 1024, 3));
    assert_eq!(has.share.healthy, amount(CPU, 1024, 2));
    assert_eq!(has.share.used(), amount(CPU - 1, 24, 1));
    let faults: Vec<_> = has.devices.iter().map(|it| it.fault.as_deref()).collect();
    assert_eq!(faults, [None, None, Some("Xid 79")]);
    assert_eq!(listed[0].available().gpu, 1);
}

#[test]
fn a_node_that_nothing_is_placed_on_says_why_and_has_nothing_available() {
    let mut bench = Bench::new();
    let available = |bench: &Bench| listed(bench)[0].available();
    assert_ne!(available(&bench), Amount::default());
    bench.report_closed("n1", Some("its disk is full"));
    assert_eq!(why(&bench, "n1"), "its disk is full");
    assert_eq!(available(&bench), Amount::default());
    bench.report_closed("n1", None);
    bench.input(CoordinatorInput::Cordoned(
        [(node("n1"), Cordon::default())].into(),
    ));
    assert!(why(&bench, "n1").contains("keeps it free"));
    bench.input(CoordinatorInput::Cordoned(BTreeMap::new()));
    bench.input(CoordinatorInput::Unreachable(
        [node("n1"), node("n3")].into(),
    ));
    assert_eq!(why(&bench, "n1"), "it cannot be reached");
    assert!(why(&bench, "n3").starts_with("it cannot be reached; "));
    bench.input(CoordinatorInput::Unreachable([].into()));
    assert_eq!(why(&bench, "n1"), "");
}

#[test]
fn a_node_that_the_description_does_not_name_is_told_apart() {
    let mut bench = Bench::new();
    bench.description = ClusterSpec::from_hived_yaml(ONE_MACHINE).unwrap();
    let description = Box::new(bench.description.clone());
    bench.input(CoordinatorInput::Described(Some(description)));
    bench.commit(&job("x", 1, CPU));
    assert_eq!(why(&bench, "n1"), "");
    assert!(
        why(&bench, "n2").contains("physicalCells"),
        "{}",
        why(&bench, "n2")
    );
}

#[test]
fn who_has_left_is_listed_as_long_as_tasks_may_be_on_it() {
    let mut bench = Bench::new();
    bench.commit(&job("x", 1, CPU));
    let on = bench.heard().split(' ').next().unwrap().to_owned();
    bench.grant(&on);
    let left = [node("n1"), node("n2")];
    bench.input(CoordinatorInput::Unreachable(left.clone().into()));
    bench.input(CoordinatorInput::Left(left.into()));
    let listed = bench.coordinator.known_nodes(BTreeSet::new(), |_| 0);
    let names: Vec<&str> = listed.iter().map(|known| known.id.as_str()).collect();
    assert_eq!(names, [on.as_str()]);
}

#[test]
fn cells_say_who_has_what_and_what_is_borrowed() {
    let mut bench = Bench::new();
    bench.gpus = 2;
    bench.version += 1;
    for name in ["n1", "n2"] {
        bench.report(name, Vec::new());
    }
    bench.heard();
    for (name, priority) in [("mine", None), ("extra", Some(PriorityClass::Oppo))] {
        let VcEntry::Accept(mut accepted) = job_of(name, 1, 1, priority) else {
            panic!("it is a job");
        };
        accepted.spec.roles[0].resources.gpu = 2;
        bench.commit(&VcEntry::Accept(accepted));
        let heard = bench.heard();
        let mut words = heard.split(", ");
        let on = words.find_map(|it| it.strip_suffix(" reserve")).unwrap();
        bench.grant(on);
        bench.heard();
    }
    let told = bench.coordinator.vc_cells(&bench.state, &JobSight::All);
    let users: Vec<_> = told.users.iter().collect();
    let of = |name: &str| {
        let found = users.iter().find(|user| user.job == Some(key(name)));
        found.map(|user| (user.devices(), user.borrowed))
    };
    assert_eq!(of("mine"), Some((2, 0)), "{users:?}");
    assert_eq!(of("extra"), Some((2, 2)), "{users:?}");
    let devices = &told.pools[0].levels[0];
    assert_eq!(
        (devices.total, devices.used, devices.lent),
        (2, 1, 1),
        "{told:?}"
    );

    let access = AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    };
    let bob = "bob".parse().unwrap();
    let sight = JobSight::of(Some(&bob), BTreeSet::new(), &access);
    let told = bench.coordinator.vc_cells(&bench.state, &sight);
    let hidden: Vec<_> = told
        .users
        .iter()
        .map(|user| (&user.job, user.devices()))
        .collect();
    assert_eq!(hidden, [(&None, 4)]);
}

#[test]
fn what_is_missing_of_a_machine_without_devices_is_told_in_cores() {
    let mut bench = Bench::new();
    bench.description = ClusterSpec::from_hived_yaml(&bench.coordinator.found()).unwrap();
    let description = Box::new(bench.description.clone());
    bench.input(CoordinatorInput::Described(Some(description)));
    bench.input(CoordinatorInput::Cordoned(
        [(node("n1"), Cordon::default())].into(),
    ));
    let problems = bench.coordinator.problems().join("; ");
    let told = format!("{CPU} cores on n1 cannot be used: cordoned");
    assert!(problems.contains(&told), "{problems}");
}
