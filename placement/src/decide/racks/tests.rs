use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::{ClusterSpec, Level};
use muster_model::time::Time;

use crate::cells::{Bins, CellEvent, Cells};
use crate::decide::{
    Decision, DecisionPolicy, GangRefusal, RoomiestRack, WaitReason, decide, keep,
};
use crate::gang::{Gang, GangMember, GangNumber, Near, Placement};

const SIX: &str = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n1}
  - {cellType: NODE, cellAddress: n2}
  - {cellType: NODE, cellAddress: n3}
  - {cellType: NODE, cellAddress: n4}
  - {cellType: NODE, cellAddress: n5}
  - {cellType: NODE, cellAddress: n6}
virtualClusters:
  v: {virtualCells: [{cellType: NODE, cellNumber: 6}]}
";

const REQUIRED: Option<Near> = Some(Near {
    level: Level::Rack,
    required: true,
});

fn tell(cells: &mut Cells, racks: &[(&str, &str)]) {
    let pair = |(node, rack): &(&str, &str)| ((*node).to_owned(), (*rack).to_owned());
    let racks: BTreeMap<String, String> = racks.iter().map(pair).collect();
    cells.apply(CellEvent::Racks(racks)).unwrap();
}

/// Rack a has n1 and n4, rack b has n2, n3 and n5, and n6 was told none.
fn told() -> Cells {
    let mut cells = untold();
    let racks = [
        ("n1", "a"),
        ("n2", "b"),
        ("n3", "b"),
        ("n4", "a"),
        ("n5", "b"),
        ("n6", ""),
    ];
    tell(&mut cells, &racks);
    cells
}

fn untold() -> Cells {
    let spec = ClusterSpec::from_hived_yaml(SIX).unwrap();
    Cells::new(&spec, Bins::default()).unwrap()
}

/// Members of so many pods with so many leaves each.
fn gang(id: u64, members: &[(u32, u32)], near: Option<Near>) -> Gang {
    let member = |(pods, leaves): &(u32, u32)| GangMember {
        pods: *pods,
        leaves: *leaves,
        near,
        ..GangMember::default()
    };
    Gang {
        id: GangNumber(id),
        vc: "v".to_owned(),
        members: members.iter().map(member).collect(),
        ..Gang::default()
    }
}

fn decided(cells: &Cells, gang: &Gang) -> Decision {
    decide(cells, gang, &DecisionPolicy::default(), Time(0))
}

fn machines(cells: &Cells, placement: &Placement) -> Vec<String> {
    let names: BTreeSet<&str> = placement
        .leaves()
        .map(|leaf| cells.address(leaf).0)
        .collect();
    names.into_iter().map(str::to_owned).collect()
}

fn placed(cells: &Cells, gang: &Gang) -> Vec<String> {
    match decided(cells, gang) {
        Decision::Place(grant) => machines(cells, &grant.placement),
        other => panic!("{other:?}"),
    }
}

/// The rack that is told while a gang waits, for how many pods it has room, and of how many.
fn roomiest(cells: &Cells, gang: &Gang) -> Option<(String, u32, u32)> {
    let rack = match decided(cells, gang) {
        Decision::Wait(WaitReason::Quota { rack, .. } | WaitReason::Idle { rack, .. }) => rack,
        other => panic!("{other:?}"),
    };
    let RoomiestRack {
        rack,
        room_for,
        pods,
    } = rack?;
    Some((rack, room_for, pods))
}

fn start(cells: &mut Cells, gang: Gang) {
    let Decision::Place(grant) = decided(cells, &gang) else {
        panic!("{gang:?} does not fit");
    };
    cells.apply(CellEvent::Started { gang, grant }).unwrap();
}

fn cordon(cells: &mut Cells, node: &str) {
    let (node, on) = (node.to_owned(), true);
    cells.apply(CellEvent::Cordon { node, on }).unwrap();
}

#[test]
fn machines_of_a_gang_are_of_the_smallest_rack_that_holds_it_else_of_few() {
    let cells = told();
    assert_eq!(placed(&cells, &gang(1, &[(2, 4)], None)), ["n1", "n4"]);
    assert_eq!(
        placed(&cells, &gang(1, &[(3, 4)], None)),
        ["n2", "n3", "n5"]
    );
    // The last machine is of the rack that has the least to spare.
    let four = placed(&cells, &gang(1, &[(4, 4)], None));
    assert_eq!(four, ["n2", "n3", "n5", "n6"]);
    let mixed = placed(&cells, &gang(1, &[(1, 4), (2, 3)], None));
    assert_eq!(mixed, ["n2", "n3", "n5"]);
    // Machines by their order, where nothing was told.
    let untold = untold();
    assert_eq!(placed(&untold, &gang(1, &[(2, 4)], None)), ["n1", "n2"]);
}

#[test]
fn a_rack_that_is_required_is_waited_for() {
    let mut cells = told();
    let three = gang(2, &[(3, 4)], REQUIRED);
    assert_eq!(placed(&cells, &three), ["n2", "n3", "n5"]);
    start(&mut cells, gang(1, &[(1, 4)], None));
    cordon(&mut cells, "n3");
    assert_eq!(roomiest(&cells, &three), Some(("b".to_owned(), 2, 3)));
    // Four machines are free, so one that only prefers a rack starts.
    let preferred = Near {
        level: Level::Rack,
        required: false,
    };
    let started = decided(&cells, &gang(3, &[(3, 4)], Some(preferred)));
    assert!(matches!(started, Decision::Place(_)), "{started:?}");
}

#[test]
fn what_no_rack_holds_is_refused() {
    let cells = told();
    let near = |pods, most| {
        Decision::Refuse(GangRefusal::Near {
            level: Level::Rack,
            pods,
            leaves: 4,
            most,
        })
    };
    assert_eq!(decided(&cells, &gang(1, &[(4, 4)], REQUIRED)), near(4, 3));
    // Machines that were told none are each in a rack of its own.
    let mut alone = untold();
    tell(&mut alone, &[("n1", "a")]);
    assert_eq!(decided(&alone, &gang(1, &[(2, 4)], REQUIRED)), near(2, 1));
    assert_eq!(placed(&alone, &gang(1, &[(2, 2)], REQUIRED)).len(), 1);
    let unknown = decided(&untold(), &gang(1, &[(2, 4)], REQUIRED));
    let Decision::Refuse(GangRefusal::NoLevel { known, .. }) = &unknown else {
        panic!("{unknown:?}");
    };
    assert_eq!(known, "node");
    let Decision::Refuse(why) = unknown else {
        unreachable!()
    };
    assert!(why.to_string().contains("[mesh]"), "{why}");
}

#[test]
fn racks_may_change_and_outlast_another_description() {
    let mut cells = told();
    start(&mut cells, gang(1, &[(2, 4)], REQUIRED));
    let spec = ClusterSpec::from_hived_yaml(SIX).unwrap();
    cells
        .apply(CellEvent::Reconfigured(Box::new(spec)))
        .unwrap();
    assert_eq!(cells.rack("n5"), Some("b"));
    let three = gang(2, &[(3, 4)], REQUIRED);
    assert_eq!(placed(&cells, &three), ["n2", "n3", "n5"]);
    tell(&mut cells, &[("n2", "c"), ("n3", "c"), ("n6", "c")]);
    assert_eq!(placed(&cells, &three), ["n2", "n3", "n6"]);
    let (_, running, _) = cells.gang(GangNumber(1)).unwrap();
    assert_eq!(machines(&cells, running), ["n1", "n4"]);
}

#[test]
fn leaves_are_kept_in_one_rack_for_who_requires_it() {
    let mut cells = told();
    start(&mut cells, gang(1, &[(3, 4)], REQUIRED));
    let kept = keep(&cells, &gang(2, &[(3, 4)], REQUIRED)).unwrap();
    assert_eq!(machines(&cells, &kept), ["n2", "n3", "n5"]);
    let kept = keep(&cells, &gang(2, &[(3, 4)], None)).unwrap();
    assert_eq!(machines(&cells, &kept), ["n1", "n4", "n6"]);
}

#[test]
fn the_rack_with_the_most_room_is_told_to_who_waits_for_one() {
    let mut cells = told();
    // One machine is left in rack a, two are in rack b, and one was told none.
    start(&mut cells, gang(1, &[(1, 4)], None));
    cordon(&mut cells, "n3");
    let told = |members: &[(u32, u32)], near| roomiest(&cells, &gang(9, members, near));
    let b = |room_for, pods| Some(("b".to_owned(), room_for, pods));
    assert_eq!(told(&[(3, 4)], REQUIRED), b(2, 3));
    assert_eq!(told(&[(5, 2)], REQUIRED), b(4, 5));
    // The largest member counts.
    assert_eq!(told(&[(1, 1), (3, 4), (1, 2)], REQUIRED), b(2, 3));
    // Nothing is told where each member fits, or where no rack is demanded.
    assert_eq!(told(&[(2, 4), (2, 4)], REQUIRED), None);
    assert_eq!(told(&[(5, 4)], None), None);
    let opportunistic = Gang {
        priority: -1,
        ..gang(9, &[(3, 4)], REQUIRED)
    };
    assert_eq!(roomiest(&cells, &opportunistic), b(2, 3));
    let Decision::Wait(why) = decided(&cells, &opportunistic) else {
        panic!("it starts");
    };
    let end =
        "; 3 tasks of it must be in one rack, and rack b, which has the most room, has it for 2";
    assert!(why.to_string().ends_with(end), "{why}");
    // Of racks with as much room the first by name is told.
    cordon(&mut cells, "n2");
    let three = gang(9, &[(3, 4)], REQUIRED);
    assert_eq!(roomiest(&cells, &three), Some(("a".to_owned(), 1, 3)));
    // The only machine with room was told no rack.
    cordon(&mut cells, "n4");
    cordon(&mut cells, "n5");
    assert_eq!(roomiest(&cells, &three), None);
}

#[test]
fn the_rack_is_chosen_by_its_room_and_not_by_its_name() {
    let mut cells = untold();
    let racks = [
        ("n1", "b"),
        ("n2", "a"),
        ("n3", "a"),
        ("n4", "b"),
        ("n5", "a"),
    ];
    tell(&mut cells, &racks);
    assert_eq!(placed(&cells, &gang(1, &[(2, 4)], None)), ["n1", "n4"]);
    let opportunistic = Gang {
        priority: -1,
        ..gang(1, &[(2, 4)], None)
    };
    assert_eq!(placed(&cells, &opportunistic), ["n1", "n4"]);
}

#[test]
fn room_is_counted_in_pods() {
    // A rack has leaves for four pods of three, and machines for three of them.
    let four = gang(1, &[(4, 3)], None);
    assert_eq!(placed(&told(), &four), ["n2", "n3", "n5", "n6"]);
    // Rack a has as many leaves as are asked for, and no machine for the larger pod.
    let mut cells = told();
    for node in ["n1", "n4"] {
        let (node, device, healthy) = (node.to_owned(), 0, false);
        let sick = CellEvent::DeviceHealth {
            node,
            device,
            healthy,
        };
        cells.apply(sick).unwrap();
    }
    let mixed = placed(&cells, &gang(1, &[(1, 4), (1, 2)], None));
    assert_eq!(mixed, ["n2", "n3"]);
}
