use muster_model::cluster_spec::ClusterSpec;
use muster_model::time::Time;

use crate::cells::{Bins, CellEvent, Cells};
use crate::decide::{Decision, DecisionPolicy, decide};
use crate::gang::{Gang, GangMember, GangNumber, Swap};

const SHELVES: &str = include_str!("../../../tests/own/clusters/three-shelves.yaml");

const SHELF: usize = 2;

fn cells(bins: Bins) -> Cells {
    let spec = ClusterSpec::from_hived_yaml(SHELVES).unwrap();
    Cells::new(&spec, bins).unwrap()
}

/// Starts a gang of one-machine pods, and says on which machines; none if it waits.
fn start(
    cells: &mut Cells,
    policy: &DecisionPolicy,
    (vc, id, pods): (&str, u64, u32),
) -> Vec<String> {
    let gang = Gang {
        id: GangNumber(id),
        vc: vc.to_owned(),
        priority: 0,
        members: vec![GangMember {
            pods,
            leaves: 2,
            leaf_type: "G".to_owned(),
            ..GangMember::default()
        }],
        ..Gang::default()
    };
    let Decision::Place(grant) = decide(cells, &gang, policy, Time(0)) else {
        return Vec::new();
    };
    let nodes = grant.placement.leaves();
    let nodes = nodes.map(|leaf| cells.address(leaf).0.to_owned());
    let mut nodes: Vec<String> = nodes.collect();
    nodes.dedup();
    cells.apply(CellEvent::Started { gang, grant }).unwrap();
    nodes
}

fn fail(cells: &mut Cells, node: &str) {
    let node = node.to_owned();
    let healthy = false;
    cells
        .apply(CellEvent::NodeHealth { node, healthy })
        .unwrap();
}

fn exchange(cells: &mut Cells, level: usize, a: u32, b: u32) {
    let swap = Swap {
        chain: 0,
        level,
        a,
        b,
    };
    cells.apply(CellEvent::Swapped(swap)).unwrap();
}

/// Under either preset, however the shelves are bound to begin with, and whichever blade of the promised one
/// fails: three small gangs leave a whole shelf to the one that was promised it.
#[test]
fn the_last_whole_cell_is_left_to_who_was_promised_one() {
    let presets = [
        (DecisionPolicy::default(), Bins::Merged),
        (DecisionPolicy::hived(), Bins::PerQuotaCell),
    ];
    for (policy, bins) in presets {
        for bound in 0..3 {
            for bad in ["1", "2"] {
                let mut cells = cells(bins);
                if bound > 0 {
                    exchange(&mut cells, SHELF, 0, bound);
                }
                let shelf = ["m", "n", "o"][bound as usize];
                fail(&mut cells, &format!("{shelf}{bad}"));
                for id in 1..=3 {
                    let nodes = start(&mut cells, &policy, ("ones", id, 1));
                    assert_eq!(nodes.len(), 1, "{bins:?} {bound} {bad} gang {id}");
                }
                let pair = start(&mut cells, &policy, ("twos", 9, 2));
                assert_eq!(pair.len(), 2, "{bins:?} {bound} {bad}: {pair:?}");
                assert_eq!(pair[0][..1], pair[1][..1], "{pair:?}");
            }
        }
    }
}

/// Where whole cells are left over nothing is exchanged; nor where none can be saved.
#[test]
fn nothing_is_exchanged_without_need() {
    let policy = DecisionPolicy::default();
    let mut cells = cells(Bins::Merged);
    fail(&mut cells, "m2");
    // Both others are whole, and one is enough.
    assert_eq!(start(&mut cells, &policy, ("ones", 1, 1)), ["n1"]);
    assert_eq!(cells.chains[0].away.len(), 0);
    // The damaged shelf has no place for two at once.
    assert_eq!(start(&mut cells, &policy, ("ones", 2, 3)).len(), 3);
    assert_eq!(cells.chains[0].away.len(), 0);
    assert!(start(&mut cells, &policy, ("twos", 9, 2)).is_empty());
}

/// What a third was promised does not get worse by the default preset.
#[test]
fn a_third_ones_promise_does_not_get_worse() {
    let others = SHELVES.replace("cellNumber: 4}", "cellNumber: 3}")
        + "  third:\n    virtualCells:\n    - {cellType: ROOM.SHELF.BLADE, cellNumber: 1}\n";
    let spec = ClusterSpec::from_hived_yaml(&others).unwrap();
    for (policy, bins, expected) in [
        (DecisionPolicy::default(), Bins::Merged, "o1"),
        (DecisionPolicy::hived(), Bins::PerQuotaCell, "m1"),
    ] {
        let mut cells = Cells::new(&spec, bins).unwrap();
        // The third is on o2; the others on n1, n2 and o1.
        assert_eq!(start(&mut cells, &policy, ("ones", 1, 2)), ["n1", "n2"]);
        fail(&mut cells, "m2");
        assert_eq!(start(&mut cells, &policy, ("ones", 3, 1)), [expected]);
    }
}
