mod brute;
mod random;

use muster_model::cluster_spec::{ClusterSpec, Level};

use super::*;
use crate::cells::{Bins, CellEvent};
use crate::decide::Turns;
use crate::gang::{GangMember, Grant, Near, Placement};
use crate::queue::Queued;

/// Machines of 4 leaves in pairs, promised to `v` as machines, the last of them to `w`.
pub(super) fn cells(machines: usize) -> Cells {
    let physical: Vec<String> = (1..=machines)
        .map(|number| format!("{{cellType: NODE, cellAddress: n{number}}}"))
        .collect();
    let text = format!(
        "
physicalCluster:
  cellTypes:
    NODE: {{childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}}
    SWITCH: {{childCellType: GPU, childCellNumber: 2}}
  physicalCells: [{}]
virtualClusters:
  v: {{virtualCells: [{{cellType: NODE, cellNumber: {}}}]}}
  w: {{virtualCells: [{{cellType: NODE, cellNumber: 1}}]}}
",
        physical.join(", "),
        machines - 1
    );
    let spec = ClusterSpec::from_hived_yaml(&text).unwrap();
    Cells::new(&spec, Bins::default()).unwrap()
}

pub(super) fn gang(id: u64, vc: &str, priority: i32, pods: u32, leaves: u32) -> Gang {
    Gang {
        id: GangNumber(id),
        vc: vc.to_owned(),
        priority,
        members: vec![GangMember {
            pods,
            leaves,
            leaf_type: "GPU".to_owned(),
            ..GangMember::default()
        }],
        ..Gang::default()
    }
}

fn start(cells: &mut Cells, gang: Gang, pods: &[&[u32]]) {
    let grant = Grant {
        placement: Placement {
            pods: pods.iter().map(|pod| pod.to_vec()).collect(),
        },
        ..Grant::default()
    };
    cells.apply(CellEvent::Started { gang, grant }).unwrap();
}

fn queue(gangs: &[Gang]) -> GangQueue {
    let queued = |gang: &Gang| Queued {
        gang: gang.clone(),
        since: Time::from_millis(gang.id.0),
    };
    GangQueue {
        gangs: gangs.iter().map(queued).collect(),
    }
}

fn sentence(explanation: &WaitExplanation) -> String {
    explanation.sentence(Time(0), &|gang| Some(format!("job{}", gang.0)))
}

fn explained(cells: &Cells, gangs: &[Gang], id: u64, policy: &DecisionPolicy) -> WaitExplanation {
    explain(cells, &queue(gangs), GangNumber(id), policy, Time(0)).unwrap()
}

fn check(cells: &Cells, gang: Gang, word: &str, text: &str) -> WaitExplanation {
    let id = gang.id.0;
    let explanation = explained(cells, &[gang], id, &DecisionPolicy::default());
    assert_eq!(explanation.constraint.word(), word);
    assert_eq!(sentence(&explanation), text);
    explanation
}

#[test]
fn what_blocks_is_named_with_who_holds_it() {
    let mut cells = cells(3);
    let mut first = gang(1, "v", 0, 1, 2);
    first.ends_by = Some(Time(50));
    start(&mut cells, first, &[&[0, 1]]);
    start(&mut cells, gang(2, "v", 0, 1, 3), &[&[4, 5, 6]]);
    let found = check(
        &cells,
        gang(9, "v", 0, 1, 3),
        "fragmentation",
        "needs 3 GPU on one node together; enough are free, but not together; 1 of 3 are missing \
         on n1 (in use by job1)",
    );
    assert_eq!(found.earliest, EarliestStart::At(Time(50)));
    let lack = MissingLeaves {
        node: "n1".to_owned(),
        what: "GPU".to_owned(),
        wanted: 3,
        missing: 1,
        rack: None,
    };
    assert_eq!(found.lacking.lacks, [lack]);
    check(
        &cells,
        gang(9, "v", 0, 2, 2),
        "quota",
        "needs 2 times 2 GPU; 1 of 2 are missing on n2 (in use by job2)",
    );
    check(
        &cells,
        gang(9, "v", -1, 4, 2),
        "idle cells",
        "needs 4 times 2 GPU; 1 of 2 are missing on n2 (in use by job2)",
    );
    let found = check(
        &cells,
        gang(9, "v", 0, 3, 4),
        "refused",
        "asks for 12 GPU cells in all, but virtual cluster v has 8: it can never start here, ask for \
         less",
    );
    assert_eq!(found.earliest, EarliestStart::Never);
    assert!(
        explain(
            &cells,
            &GangQueue::default(),
            GangNumber(9),
            &DecisionPolicy::default(),
            Time(0)
        )
        .is_none()
    );
}

#[test]
fn a_demanded_rack_is_named_with_what_is_missing_there() {
    let mut cells = cells(5);
    let racks = [("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "a")];
    let racks = racks.map(|(node, rack)| (node.to_owned(), rack.to_owned()));
    cells.apply(CellEvent::Racks(racks.into())).unwrap();
    start(&mut cells, gang(1, "v", 0, 1, 1), &[&[0]]);
    start(&mut cells, gang(2, "v", 0, 1, 3), &[&[4, 5, 6]]);
    let mut demands = gang(9, "v", 0, 2, 4);
    let near = |level| {
        Some(Near {
            level,
            required: true,
        })
    };
    demands.members[0].near = near(Level::Rack);
    let found = check(
        &cells,
        demands.clone(),
        "topology",
        "needs 2 times 4 GPU in one rack; 1 of 4 are missing on n1 in rack a; it would fit \
         without that (in use by job1)",
    );
    assert_eq!(found.lacking.lacks[0].rack.as_deref(), Some("a"));
    // Another member asks for something else as well.
    demands.members.push(GangMember {
        pods: 1,
        leaves: 2,
        near: near(Level::Pcie),
        ..demands.members[0].clone()
    });
    let both = explained(&cells, &[demands], 9, &DecisionPolicy::default());
    let both = sentence(&both);
    assert!(both.contains("in one rack and 2 GPU"), "{both}");
    // The rack of who demands none is not of interest.
    let found = check(
        &cells,
        gang(9, "v", 0, 3, 4),
        "fragmentation",
        "needs 3 times 4 GPU together; enough are free, but not together; 1 of 4 are missing on n1 \
         (in use by job1)",
    );
    assert_eq!(found.lacking.lacks[0].rack, None);
}

#[test]
fn nearness_and_hardware_are_named() {
    let mut cells = cells(2);
    start(&mut cells, gang(1, "v", 0, 1, 1), &[&[0]]);
    start(&mut cells, gang(2, "v", 0, 1, 1), &[&[2]]);
    let mut near = gang(9, "v", 0, 1, 2);
    near.members[0].near = Some(Near {
        level: Level::Pcie,
        required: true,
    });
    let found = check(
        &cells,
        near,
        "topology",
        "needs 2 GPU on one node as near together as it asks; 1 of 2 are missing on n1; it would \
         fit without that (in use by job1)",
    );
    assert_eq!(found.lacking.lacks[0].missing, 1);
    cells
        .apply(CellEvent::DeviceHealth {
            node: "n1".to_owned(),
            device: 1,
            healthy: false,
        })
        .unwrap();
    let found = check(
        &cells,
        gang(9, "v", 0, 1, 2),
        "hardware",
        "needs 2 GPU on one node; 1 such cell is sick (n1), and others hold the rest (in use by \
         job1)",
    );
    assert_eq!(found.earliest, EarliestStart::Unknown);
}

#[test]
fn cells_that_cannot_be_used_are_those_of_the_virtual_cluster_with_their_machines() {
    let mut cells = cells(3);
    let cordon = |node: &str| CellEvent::Cordon {
        node: node.to_owned(),
        on: true,
    };
    let away = |node: &str| CellEvent::NodeHealth {
        node: node.to_owned(),
        healthy: false,
    };
    // The last one is promised to the other virtual cluster.
    cells.apply(cordon("n3")).unwrap();
    cells.apply(away("n2")).unwrap();
    let found = check(
        &cells,
        gang(9, "v", 0, 2, 4),
        "hardware",
        "needs 2 times 4 GPU; 4 such cells are away (n2); it can start when n2 is back",
    );
    assert_eq!(found.earliest, EarliestStart::Unknown);
    cells.apply(cordon("n1")).unwrap();
    check(
        &cells,
        gang(9, "v", 0, 1, 4),
        "hardware",
        "needs 4 GPU on one node; 4 such cells are away (n2), 4 cordoned (n1); it can start when \
         enough of n1, n2 are back",
    );
}

#[test]
fn whoever_is_before_it_is_named() {
    let cells = cells(2);
    let (first, second) = (gang(1, "v", 5, 1, 4), gang(2, "v", 0, 1, 2));
    let both = [first.clone(), second.clone()];
    let found = explained(&cells, &both, 2, &DecisionPolicy::default());
    assert_eq!(found.constraint, Constraint::Turn(Some(GangNumber(1))));
    assert_eq!(
        (found.earliest, found.lacking.lacks.len()),
        (EarliestStart::Now, 0)
    );
    let found = explained(&cells, &both, 1, &DecisionPolicy::default());
    assert_eq!(found.constraint, Constraint::Turn(None));

    let mut cells = cells;
    start(&mut cells, gang(3, "v", 5, 1, 2), &[&[0, 1]]);
    let strict = DecisionPolicy {
        turns: Turns::strict(),
        ..DecisionPolicy::default()
    };
    let found = explained(&cells, &both, 2, &strict);
    assert_eq!(found.constraint, Constraint::Turn(Some(GangNumber(1))));
    let late = Time::from_millis(100_000_000);
    let found = explain(
        &cells,
        &queue(&both),
        GangNumber(2),
        &DecisionPolicy::default(),
        late,
    )
    .unwrap();
    assert_eq!(found.constraint, Constraint::Kept(GangNumber(1)));
    assert_eq!(
        sentence(&found),
        "would fit, but room is kept for job1, which was passed for too long"
    );
}

#[test]
fn victims_on_their_way_out_are_named() {
    let mut cells = cells(2);
    start(&mut cells, gang(1, "v", 0, 1, 4), &[&[0, 1, 2, 3]]);
    let found = check(
        &cells,
        gang(9, "v", 5, 1, 2),
        "victims",
        "waits for job1 to give way",
    );
    let holder = &found.lacking.holders[0];
    assert_eq!(
        (holder.gang, found.earliest),
        (GangNumber(1), EarliestStart::Now)
    );
}

#[test]
fn shortfalls_are_told_with_their_cause() {
    let mut cells = cells(3);
    assert!(shortfalls(&cells).is_empty());
    for node in ["n1", "n3"] {
        cells
            .apply(CellEvent::Cordon {
                node: node.to_owned(),
                on: true,
            })
            .unwrap();
    }
    let told = shortfalls(&cells).into_iter();
    let of_v: Vec<Shortfall> = told.filter(|short| short.vc == "v").collect();
    let expected = Shortfall {
        vc: "v".to_owned(),
        node: "n1".to_owned(),
        leaf_type: "GPU".to_owned(),
        leaves: 4,
        is_cordoned: true,
    };
    assert_eq!(of_v, [expected]);
}
