use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::{ClusterSpec, Level};
use muster_model::time::Time;

use crate::cells::{Bins, CellEvent, Cells};
use crate::decide::{Decision, DecisionPolicy, GangRefusal, WaitReason, decide, keep};
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
    let waits = decided(&cells, &three);
    assert!(
        matches!(waits, Decision::Wait(WaitReason::Quota { .. })),
        "{waits:?}"
    );
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
