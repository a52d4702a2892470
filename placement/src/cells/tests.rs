use muster_model::cluster_spec::ClusterSpec;
use muster_model::time::Time;

use super::*;
use crate::decide::{Decision, DecisionPolicy, decide};
use crate::gang::{GangMember, GangNumber, Grant, Swap};

const TWO: &str = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 2, isNodeLevel: true}
  physicalCells: [{cellType: NODE, cellAddress: a}, {cellType: NODE, cellAddress: b}]
virtualClusters:
";

fn cells(vcs: &str) -> Result<Cells, String> {
    let spec = ClusterSpec::from_hived_yaml(&format!("{TWO}{vcs}")).unwrap();
    Cells::new(&spec, Bins::default()).map_err(|problems| problems[0].to_string())
}

fn gang(id: u64, vc: &str, priority: i32) -> Gang {
    gang_of(id, vc, 2, priority)
}

/// A gang of one pod with so many leaves.
pub(super) fn gang_of(id: u64, vc: &str, leaves: u32, priority: i32) -> Gang {
    Gang {
        id: GangNumber(id),
        vc: vc.to_owned(),
        priority,
        members: vec![GangMember {
            pods: 1,
            leaves,
            ..GangMember::default()
        }],
        ..Gang::default()
    }
}

fn on(leaves: &[Leaf]) -> Grant {
    Grant {
        placement: Placement {
            pods: vec![leaves.to_vec()],
        },
        ..Grant::default()
    }
}

const ONE_EACH: &str = "  v: {virtualCells: [{cellType: NODE, cellNumber: 1}]}
  w: {virtualCells: [{cellType: NODE, cellNumber: 1}]}";

#[test]
fn a_cluster_that_promises_too_much_is_refused_with_the_field() {
    let error = cells("  v: {virtualCells: [{cellType: NODE, cellNumber: 3}]}").unwrap_err();
    assert_eq!(
        error,
        "virtualClusters.v.virtualCells[0].cellNumber: v asks for 3 cells of type NODE, but only \
         2 are left; promise less"
    );
    let error = cells("  v: {virtualCells: [{cellType: NODE.X, cellNumber: 1}]}").unwrap_err();
    assert!(
        error.contains("\"NODE.X\" is no path of types; they run NODE.G"),
        "{error}"
    );
    let error = cells("  v: {pinnedCells: [{pinnedCellId: p}]}").unwrap_err();
    assert!(
        error.contains("no physical cell is pinned as \"p\""),
        "{error}"
    );
}

/// What cannot have happened is refused, and nothing is changed by it.
#[test]
fn events_that_cannot_be_are_refused() {
    let mut cells = cells(ONE_EACH).unwrap();
    let started = |cells: &mut Cells, gang: Gang, grant: Grant| {
        let done = cells.apply(CellEvent::Started { gang, grant });
        cells.audit().unwrap();
        done
    };
    started(&mut cells, gang(1, "v", 0), on(&[0, 1])).unwrap();
    let held = CellsError::Held {
        leaf: 0,
        holder: GangNumber(1),
    };
    let promised = |leaf| CellsError::NotPromised {
        gang: GangNumber(2),
        leaf,
    };
    for (id, vc, leaves, error) in [
        (1, "v", [2, 3], CellsError::Known(GangNumber(1))),
        (2, "v", [0, 1], held),
        (2, "v", [2, 3], promised(2)),
        (2, "w", [2, 2], promised(2)),
        (2, "w", [2, 9], promised(9)),
    ] {
        assert_eq!(
            started(&mut cells, gang(id, vc, 0), on(&leaves)),
            Err(error)
        );
    }
    let swap = Swap {
        chain: 0,
        level: 1,
        a: 0,
        b: 1,
    };
    assert!(matches!(
        cells.apply(CellEvent::Swapped(swap)),
        Err(CellsError::Swap { .. })
    ));
    let unknown = CellEvent::GangEnded(GangNumber(7));
    assert_eq!(
        cells.apply(unknown),
        Err(CellsError::Unknown(GangNumber(7)))
    );
    let node = "c".to_owned();
    assert!(cells.apply(CellEvent::Cordon { node, on: true }).is_err());
    assert!(cells.gang(GangNumber(2)).is_none());
}

#[test]
fn a_claim_gives_way_to_a_more_important_gang_only() {
    let mut cells = cells(ONE_EACH).unwrap();
    let grant = on(&[0, 1]);
    cells
        .apply(CellEvent::Started {
            gang: gang(1, "v", 0),
            grant: grant.clone(),
        })
        .unwrap();
    cells
        .apply(CellEvent::Preempting {
            gang: gang(2, "v", 5),
            grant: grant.clone(),
        })
        .unwrap();
    let equal = CellEvent::Preempting {
        gang: gang(3, "v", 5),
        grant: grant.clone(),
    };
    assert!(matches!(cells.apply(equal), Err(CellsError::Held { .. })));
    let higher = CellEvent::Preempting {
        gang: gang(4, "v", 6),
        grant,
    };
    cells.apply(higher).unwrap();
    assert!(cells.gang(GangNumber(2)).is_none());
    cells.audit().unwrap();
}

/// An opportunistic gang is spared by exchanging the quota cell it is on for an idle one.
#[test]
fn an_idle_cell_is_exchanged_for_one_in_use() {
    let mut cells = cells(ONE_EACH).unwrap();
    let grant = on(&[0, 1]);
    cells
        .apply(CellEvent::Started {
            gang: gang(1, "w", -1),
            grant,
        })
        .unwrap();
    let Decision::Place(grant) = decide(
        &cells,
        &gang(2, "v", 0),
        &DecisionPolicy::default(),
        Time(0),
    ) else {
        panic!("there is an idle cell");
    };
    assert_eq!(
        (grant.swaps.len(), &grant.placement.pods),
        (1, &vec![vec![2, 3]])
    );
    cells
        .apply(CellEvent::Started {
            gang: gang(2, "v", 0),
            grant,
        })
        .unwrap();
    // Now the owner of the other cell comes, and there is nothing left to exchange.
    let decision = decide(
        &cells,
        &gang(3, "w", 0),
        &DecisionPolicy::default(),
        Time(0),
    );
    let Decision::Preempt { victims, .. } = decision else {
        panic!("{decision:?}");
    };
    assert_eq!(victims, [GangNumber(1)]);
    cells.apply(CellEvent::GangEnded(GangNumber(2))).unwrap();
    cells.apply(CellEvent::GangEnded(GangNumber(1))).unwrap();
    assert!(cells.is_pristine());
}

fn two_pods(id: u64, vc: &str, priority: i32) -> Gang {
    let mut gang = gang(id, vc, priority);
    gang.user = "ann".to_owned();
    gang.members = vec![GangMember {
        pods: 2,
        leaves: 1,
        share: crate::gang::MachineAmount {
            cpu: 3,
            ..Default::default()
        },
        ..GangMember::default()
    }];
    gang
}

fn on_each(leaves: &[Leaf]) -> Placement {
    Placement {
        pods: leaves.iter().map(|leaf| vec![*leaf]).collect(),
    }
}

#[test]
fn a_released_pod_gives_everything_back_and_the_last_ends_the_gang() {
    let mut cells = cells(ONE_EACH).unwrap();
    let amount = crate::gang::MachineAmount {
        cpu: 6,
        ..Default::default()
    };
    let node = "a".to_owned();
    cells.apply(CellEvent::Capacity { node, amount }).unwrap();
    let grant = Grant {
        placement: on_each(&[0, 1]),
        ..Grant::default()
    };
    let started = CellEvent::Started {
        gang: two_pods(1, "v", 0),
        grant,
    };
    cells.apply(started).unwrap();
    let release = |pod: u32| CellEvent::PodReleased {
        gang: GangNumber(1),
        pod,
    };
    assert_eq!(cells.free_amount("a").map(|free| free.cpu), Some(0));
    cells.apply(release(0)).unwrap();
    cells.audit().unwrap();
    assert_eq!(cells.free_amount("a").map(|free| free.cpu), Some(3));
    assert!(cells.holder(0).is_none() && cells.holder(1).is_some());
    assert!(cells.apply(release(0)).is_err());
    let restarted = CellEvent::PodRestarted {
        gang: GangNumber(1),
        pod: 0,
    };
    assert!(cells.apply(restarted).is_err());
    cells.apply(release(1)).unwrap();
    cells.audit().unwrap();
    assert!(cells.gang(GangNumber(1)).is_none() && cells.is_pristine());
}

#[test]
fn what_is_found_running_is_adopted_where_it_is() {
    let mut cells = cells(ONE_EACH).unwrap();
    let adopt = |gang: Gang, leaves: &[Leaf]| CellEvent::Adopted {
        gang,
        placement: on_each(leaves),
    };
    let node = "b".to_owned();
    let healthy = false;
    cells
        .apply(CellEvent::NodeHealth { node, healthy })
        .unwrap();
    // The quota cell of v is bound to the other machine, but can be exchanged for this one.
    let away = if cells
        .quota_of(0)
        .is_some_and(|quota| cells.pools[at(quota.pool)].vc == "v")
    {
        [2, 3]
    } else {
        [0, 1]
    };
    cells.apply(adopt(two_pods(1, "v", 0), &away)).unwrap();
    cells.audit().unwrap();
    let state = |cells: &Cells, id: u64| cells.gang(GangNumber(id)).map(|gang| gang.2);
    let kept = GangState::Allocated {
        lazily_preempted: false,
    };
    assert_eq!(state(&cells, 1), Some(kept));
    let held = cells.apply(adopt(two_pods(2, "w", 0), &away));
    assert!(matches!(held, Err(CellsError::Held { .. })), "{held:?}");
    let torn = CellEvent::Adopted {
        gang: gang(2, "w", 0),
        placement: Placement {
            pods: vec![vec![away[0] ^ 2, 0], Vec::new()],
        },
    };
    assert!(cells.apply(torn).is_err());
    // A second one of v has no quota left and goes on as opportunistic.
    let other = [away[0] ^ 2, away[1] ^ 2];
    cells.apply(adopt(two_pods(3, "v", 0), &other)).unwrap();
    cells.audit().unwrap();
    let lost = GangState::Allocated {
        lazily_preempted: true,
    };
    assert_eq!(state(&cells, 3), Some(lost));
    // With more quota it has its own again; the other one keeps what it has.
    let two = format!("{TWO}  v: {{virtualCells: [{{cellType: NODE, cellNumber: 2}}]}}");
    let two = ClusterSpec::from_hived_yaml(&two).unwrap();
    cells.apply(CellEvent::Reconfigured(Box::new(two))).unwrap();
    cells.audit().unwrap();
    assert_eq!(
        (state(&cells, 1), state(&cells, 3)),
        (Some(kept), Some(kept))
    );
}

#[test]
fn who_waits_for_victims_loses_nothing_by_another_description() {
    let mut cells = cells(ONE_EACH).unwrap();
    let leaves = if cells
        .quota_of(0)
        .is_some_and(|quota| cells.pools[at(quota.pool)].vc == "v")
    {
        [0, 1]
    } else {
        [2, 3]
    };
    let grant = || Grant {
        placement: on_each(&leaves),
        ..Grant::default()
    };
    let started = CellEvent::Started {
        gang: two_pods(1, "v", 0),
        grant: grant(),
    };
    cells.apply(started).unwrap();
    let claimed = CellEvent::Preempting {
        gang: two_pods(2, "v", 5),
        grant: grant(),
    };
    cells.apply(claimed).unwrap();
    let same = ClusterSpec::from_hived_yaml(&format!("{TWO}{ONE_EACH}")).unwrap();
    let what = cells.what_if(&same).unwrap();
    assert_eq!((what.lose_quota, what.lose_devices), (vec![], vec![]));
}

#[test]
fn the_description_in_the_manual_makes_cells() {
    let manual = include_str!("../../../docs/clusters.md");
    let from = manual.find("# /etc/muster/cluster.yaml").unwrap();
    let text = manual[from..].split("```").next().unwrap();
    let spec = ClusterSpec::from_hived_yaml(text).unwrap();
    let cells = Cells::new(&spec, Bins::default()).unwrap();
    assert_eq!(cells.leaf_count(), 8);
    assert_eq!(cells.promised_leaves("vision").count(), 4);
}

/// A machine that is a pool of devices and a pool of cores, as HiveD takes it: both count from 0.
const TWO_POOLS: &str = "
physicalCluster:
  skuTypes:
    DT: {gpu: 1, cpu: 4, memory: 8000Mi}
    CORE: {cpu: 1, memory: 2000Mi}
  cellTypes:
    DT-NODE: {childCellType: DT, childCellNumber: 4, isNodeLevel: true}
    CPU-NODE: {childCellType: CORE, childCellNumber: 24, isNodeLevel: true}
  physicalCells:
  - {cellType: DT-NODE, cellAddress: vm}
  - {cellType: CPU-NODE, cellAddress: vm}
virtualClusters:
  v: {virtualCells: [{cellType: DT-NODE, cellNumber: 1}, {cellType: CPU-NODE, cellNumber: 1}]}
";

#[test]
fn leaf_cells_without_a_device_have_numbers_that_no_device_has() {
    use muster_model::cluster_spec::CPU_LEAF_FIRST;
    for bins in [Bins::Merged, Bins::PerQuotaCell] {
        let spec = ClusterSpec::from_hived_yaml(TWO_POOLS).unwrap();
        let cells = Cells::new(&spec, bins).unwrap();
        assert_eq!(cells.leaves_on("vm").count(), 28, "{bins:?}");
    }
    let spec = ClusterSpec::from_hived_yaml(TWO_POOLS).unwrap();
    let cells = Cells::new(&spec, Bins::Merged).unwrap();
    let numbers = cells.leaves_on("vm").map(|leaf| cells.address(leaf).1);
    let numbers: std::collections::BTreeSet<u32> = numbers.collect();
    let cores = CPU_LEAF_FIRST..CPU_LEAF_FIRST + 24;
    assert!(numbers.into_iter().eq((0..4).chain(cores)));
    // Two pools of cores beside it count on.
    let three = TWO_POOLS
        .replace("  physicalCells:", "    MORE-NODE: {childCellType: CPU, childCellNumber: 2, isNodeLevel: true}\n  physicalCells:\n  - {cellType: MORE-NODE, cellAddress: vm}");
    let spec = ClusterSpec::from_hived_yaml(&three).unwrap();
    let cells = Cells::new(&spec, Bins::Merged).unwrap();
    let numbers = cells.leaves_on("vm").map(|leaf| cells.address(leaf).1);
    let numbers: std::collections::BTreeSet<u32> = numbers.collect();
    assert_eq!(numbers.len(), 30, "each has its own");
}

#[test]
fn devices_that_are_there_twice_are_told_with_the_way_out() {
    let twice = TWO_POOLS.replace("CORE: {cpu", "CORE: {gpu: 1, cpu");
    let spec = ClusterSpec::from_hived_yaml(&twice).unwrap();
    let problems = Cells::new(&spec, Bins::Merged).unwrap_err();
    let [problem] = &problems[..] else {
        panic!("{problems:?}");
    };
    let text = problem.to_string();
    for told in [
        "device 0, 1, 2, 3 of machine vm",
        "cellAddress under cellChildren",
        "gpu: 0",
    ] {
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn a_tree_tells_what_is_with_each_promised_cell() {
    use muster_model::vc_cells::LeafState;
    let mut cells = cells(
        "  v: {virtualCells: [{cellType: NODE, cellNumber: 1}, {cellType: NODE.G, cellNumber: 1}]}
  w: {virtualCells: [{cellType: NODE.G, cellNumber: 1}]}",
    )
    .unwrap();
    let start = |cells: &mut Cells, gang: Gang, leaves: &[Leaf]| {
        let grant = on(leaves);
        cells.apply(CellEvent::Started { gang, grant }).unwrap();
    };
    let mine: Vec<Leaf> = cells.promised_leaves("v").collect();
    let whole: Vec<Leaf> = cells
        .promised_leaves("v")
        .filter(|leaf| cells.node_of(*leaf) == cells.node_of(mine[0]))
        .collect();
    assert_eq!(whole.len(), 2, "{mine:?}");
    start(&mut cells, gang_of(1, "v", 1, 0), &whole[..1]);
    // An opportunistic job of the other one is on the rest of it.
    start(&mut cells, gang_of(2, "w", 1, -1), &whole[1..]);
    let (node, device) = cells.address(mine[2]);
    let event = CellEvent::DeviceHealth {
        node: node.to_owned(),
        device,
        healthy: false,
    };
    cells.apply(event).unwrap();

    let pools = cells.promised_cells("v");
    assert_eq!(pools.len(), 1);
    let level = |at: usize| {
        let it = &pools[0].levels[at];
        (&*it.cell_type, it.total, it.used, it.free, it.bad, it.lent)
    };
    assert_eq!(level(0), ("NODE", 1, 1, 0, 0, 1));
    assert_eq!(level(1).1, 3);
    let listed = &pools[0].cells;
    assert_eq!((listed.len(), pools[0].unlisted), (2, 0));
    let large = listed.iter().find(|cell| cell.size() == 2).unwrap();
    assert_eq!(large.node.as_deref(), Some("a"));
    let counted = LeafState::ALL.map(|state| large.count(state));
    assert_eq!(counted, [1, 0, 0, 1]);
    assert!(cells.promised_cells("nobody").is_empty());
}
