use muster_model::cluster_spec::ClusterSpec;

use super::*;
use crate::amount::MachineAmount;
use crate::cells::{Bins, CellEvent};
use crate::gang::{GangMember, Placement};
use crate::plan::advance;
use crate::queue::{GangQueue, Queued};
use crate::random::SplitMix64;

/// Machines n1 and n2 with 4 GPUs and 4 places for plain tasks each, all promised to v.
const TWO: &str = "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 4, isNodeLevel: true}
    CPU-NODE: {childCellType: CPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: n1}
  - {cellType: NODE, cellAddress: n2}
  - {cellType: CPU-NODE, cellAddress: n1, cellChildren: [{cellAddress: 100}, {cellAddress: 101}, {cellAddress: 102}, {cellAddress: 103}]}
  - {cellType: CPU-NODE, cellAddress: n2, cellChildren: [{cellAddress: 100}, {cellAddress: 101}, {cellAddress: 102}, {cellAddress: 103}]}
virtualClusters:
  v: {virtualCells: [{cellType: NODE, cellNumber: 2}, {cellType: CPU-NODE, cellNumber: 2}]}
";

fn cells(cpu: [u32; 2]) -> Cells {
    let spec = ClusterSpec::from_hived_yaml(TWO).unwrap();
    let mut cells = Cells::new(&spec, Bins::default()).unwrap();
    for (node, cpu) in ["n1", "n2"].into_iter().zip(cpu) {
        state(&mut cells, node, cpu);
    }
    cells
}

fn state(cells: &mut Cells, node: &str, cpu: u32) {
    let amount = MachineAmount {
        cpu,
        memory_mb: 1000,
        ports: 10,
    };
    let node = node.to_owned();
    cells.apply(CellEvent::Capacity { node, amount }).unwrap();
}

/// `2x1G/4` is 2 pods of 1 leaf of type G with 4 cores each; several with a plus between.
fn gang(id: u64, priority: i32, text: &str) -> Gang {
    let member = |text: &str| {
        let (pods, rest) = text.split_once('x').unwrap();
        let (leaves, cpu) = rest.split_once('/').unwrap();
        let leaf_type = leaves.trim_start_matches(|c: char| c.is_ascii_digit());
        GangMember {
            pods: pods.parse().unwrap(),
            leaves: leaves[..leaves.len() - leaf_type.len()].parse().unwrap(),
            leaf_type: leaf_type.to_owned(),
            share: MachineAmount {
                cpu: cpu.parse().unwrap(),
                ..MachineAmount::NONE
            },
            ..GangMember::default()
        }
    };
    Gang {
        id: GangNumber(id),
        vc: "v".to_owned(),
        priority,
        members: text.split('+').map(member).collect(),
        ..Gang::default()
    }
}

fn ask(cells: &Cells, gang: &Gang) -> Decision {
    decide(cells, gang, &DecisionPolicy::default(), Time(10))
}

fn text(cells: &Cells, gang: &Gang) -> String {
    match ask(cells, gang) {
        Decision::Place(grant) => format!("on {}", nodes(cells, &grant.placement)),
        Decision::Preempt { victims, grant } => {
            let victims: Vec<u64> = victims.iter().map(|id| id.0).collect();
            format!("on {} without {victims:?}", nodes(cells, &grant.placement))
        }
        Decision::Wait(waiting) => format!("waits: {waiting}"),
        Decision::Refuse(refusal) => format!("never: {refusal}"),
    }
}

fn nodes(cells: &Cells, placement: &Placement) -> String {
    let node = |pod: &Vec<u32>| cells.address(pod[0]).0.to_owned();
    let nodes: Vec<String> = placement.pods.iter().map(node).collect();
    nodes.join(" ")
}

fn start(cells: &mut Cells, gang: Gang) {
    let Decision::Place(grant) = ask(cells, &gang) else {
        panic!("{} does not fit: {}", gang.id, text(cells, &gang));
    };
    cells.apply(CellEvent::Started { gang, grant }).unwrap();
    cells.audit().unwrap();
}

/// What machines have is as good as unlimited where nobody knows it.
#[test]
fn what_several_chains_have_is_summed_without_wrapping() {
    let spec = ClusterSpec::from_hived_yaml(
        "
physicalCluster:
  cellTypes:
    NODE: {childCellType: G, childCellNumber: 4, isNodeLevel: true}
    BIG-NODE: {childCellType: G, childCellNumber: 8, isNodeLevel: true}
  physicalCells: [{cellType: NODE, cellAddress: n1}, {cellType: BIG-NODE, cellAddress: n2}]
virtualClusters: {v: {virtualCells: [{cellType: NODE, cellNumber: 1}]}}
",
    );
    let mut cells = Cells::new(&spec.unwrap(), Bins::default()).unwrap();
    for node in ["n1", "n2"] {
        let amount = MachineAmount {
            cpu: 4,
            memory_mb: u64::MAX,
            ports: 10,
        };
        let node = node.to_owned();
        cells.apply(CellEvent::Capacity { node, amount }).unwrap();
    }
    let found = text(&cells, &gang(1, -1, "1x1G/1"));
    assert!(found.starts_with("on "), "{found}");
}

#[test]
fn machines_that_have_enough_are_found_and_else_it_is_said_what_is_missing() {
    let mut cells = cells([4, 8]);
    let never = "it can never start here, ask for less";
    for (asked, expected) in [
        ("1x1G/4", "on n1"),
        ("1x1G/5", "on n2"),
        ("3x1G/4", "on n2 n2 n1"),
        (
            "1x1G/64",
            &*format!("never: asks for 64 CPU cores, but the largest node has 8: {never}"),
        ),
        (
            "4x1G/4",
            &*format!(
                "never: asks for 16 CPU cores in all its tasks, but all nodes together have 12: \
                 {never}"
            ),
        ),
    ] {
        assert_eq!(text(&cells, &gang(1, 0, asked)), expected, "{asked}");
    }
    start(&mut cells, gang(1, 0, "1x1G/3"));
    start(&mut cells, gang(2, 0, "1x1CPU/7"));
    for (asked, expected) in [
        (
            "1x1G/4",
            "waits: needs 4 CPU cores on one node; 1 is free on n2",
        ),
        (
            "3x1G/1",
            "waits: has room for 2 of its 3 tasks; the next one needs 1 CPU core on one node; none \
             is free",
        ),
        ("2x1G/1", "on n1 n2"),
    ] {
        let got = text(&cells, &gang(3, 0, asked));
        assert!(got.starts_with(expected), "{asked}: {got}");
    }
    let both = Gang {
        members: vec![GangMember {
            share: MachineAmount {
                cpu: 8,
                memory_mb: 900,
                ports: 0,
            },
            ..gang(3, 0, "1x1G/8").members[0].clone()
        }],
        ..gang(3, 0, "1x1G/8")
    };
    state(&mut cells, "n1", 7);
    let amount = MachineAmount {
        cpu: 8,
        memory_mb: 100,
        ports: 0,
    };
    let node = "n2".to_owned();
    cells.apply(CellEvent::Capacity { node, amount }).unwrap();
    let got = text(&cells, &both);
    assert!(got.contains("but no node has all of it"), "{got}");
}

#[test]
fn nobody_starts_beyond_what_a_machine_has() {
    let mut cells = cells([4, 4]);
    let first = gang(1, -1, "1x1G/3");
    let grant = |leaf: u32| Grant {
        placement: Placement {
            pods: vec![vec![leaf]],
        },
        ..Grant::default()
    };
    let place = |gang: Gang, leaf: u32| CellEvent::Started {
        gang,
        grant: grant(leaf),
    };
    cells.apply(place(first, 0)).unwrap();
    let refused = cells.apply(place(gang(2, -1, "1x1G/2"), 1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "gang 2 takes 2 CPU cores on n1, where 1 are left"
    );
    cells.audit().unwrap();
    cells.apply(CellEvent::GangEnded(GangNumber(1))).unwrap();
    cells.apply(place(gang(2, -1, "1x1G/2"), 1)).unwrap();
    cells.audit().unwrap();
}

#[test]
fn another_machine_comes_before_an_eviction_and_few_go() {
    let mut cells = cells([4, 8]);
    start(&mut cells, gang(1, -1, "1x1CPU/3"));
    start(&mut cells, gang(2, -1, "1x1G/1"));
    assert_eq!(text(&cells, &gang(3, 0, "1x1G/4")), "on n2");
    start(&mut cells, gang(3, 0, "1x1G/8"));
    let one = gang(4, 0, "1x1G/2");
    assert_eq!(text(&cells, &one), "on n1 without [1]");
    let Decision::Preempt { grant, .. } = ask(&cells, &one) else {
        panic!("a victim is needed");
    };
    let gang4 = one.clone();
    cells
        .apply(CellEvent::Preempting { gang: gang4, grant })
        .unwrap();
    assert_eq!(text(&cells, &one), "on n1 without [1]");
    assert!(preemption_holds(&cells, GangNumber(4)));
    // What it claims is nobody else's, even while its victim is still there.
    cells.apply(CellEvent::GangEnded(GangNumber(1))).unwrap();
    assert!(text(&cells, &gang(5, -1, "1x1G/2")).starts_with("waits"));
    assert_eq!(text(&cells, &gang(5, -1, "1x1G/1")), "on n1");
    start(&mut cells, one);
}

/// Its machine has become too small whoever goes: it waits, and nothing more is kept for it.
#[test]
fn an_overdue_gang_with_a_claim_keeps_that_and_no_more() {
    let mut cells = cells([4, 8]);
    start(&mut cells, gang(1, -1, "1x1CPU/3"));
    start(&mut cells, gang(3, 0, "1x1G/8"));
    let one = gang(4, 0, "1x1G/2");
    let Decision::Preempt { grant, .. } = ask(&cells, &one) else {
        panic!("a victim is needed");
    };
    let gang4 = one.clone();
    cells
        .apply(CellEvent::Preempting { gang: gang4, grant })
        .unwrap();
    let amount = MachineAmount {
        cpu: 1,
        memory_mb: 100,
        ports: 0,
    };
    let node = "n1".to_owned();
    cells.apply(CellEvent::Capacity { node, amount }).unwrap();
    let queued = Queued {
        gang: one,
        since: Time(0),
    };
    let queue = GangQueue {
        gangs: vec![queued],
    };
    let late = Time::from_millis(1_000 * 3_600_000);
    let plan = advance(&mut cells, &queue, &DecisionPolicy::default(), late);
    let waits = matches!(plan.decisions[..], [(GangNumber(4), Decision::Wait(_))]);
    assert!(waits && plan.kept.is_empty(), "{plan:?}");
    assert!(
        cells.gang(GangNumber(4)).is_some(),
        "its claim was taken away"
    );
    cells.audit().unwrap();
}

#[test]
fn less_important_gangs_of_the_cluster_go_for_their_share_but_not_before_their_time() {
    let mut cells = cells([4, 4]);
    for id in [1, 2] {
        let mut fixed = gang(id, 0, "1x1CPU/4");
        fixed.fixed_until = Some(Time(20 * id));
        fixed.lazy = id == 1;
        start(&mut cells, fixed);
    }
    let asking = gang(3, 5, "1x1G/1");
    assert_eq!(
        ask(&cells, &asking),
        Decision::Wait(WaitReason::Fixed { until: Time(40) })
    );
    let at = |us: u64| decide(&cells, &asking, &DecisionPolicy::default(), Time(us));
    for (us, victim) in [(20, 1), (40, 2)] {
        let Decision::Preempt { victims, .. } = at(us) else {
            panic!("{us}: {:?}", at(us));
        };
        assert_eq!(victims, [GangNumber(victim)], "{us}");
    }
    let equal = gang(4, 0, "1x1G/1");
    assert!(matches!(
        ask(&cells, &equal),
        Decision::Wait(WaitReason::Machine { .. })
    ));
}

/// An owner's claim is never held up by the minimum run time of an opportunistic gang.
#[test]
fn opportunistic_gangs_are_never_fixed() {
    let mut cells = cells([4, 4]);
    let mut fixed = gang(1, -1, "8x1G/0");
    fixed.fixed_until = Some(Time(1000));
    start(&mut cells, fixed);
    assert_eq!(text(&cells, &gang(2, 0, "1x1G/1")), "on n1 without [1]");
}

#[test]
fn several_leaf_types_start_together_or_not_at_all() {
    let mut cells = cells([100, 100]);
    let both = "2x4G/1+4x1CPU/1";
    let placed = ask(&cells, &gang(1, 0, both));
    let Decision::Place(grant) = &placed else {
        panic!("{placed:?}");
    };
    let types = grant
        .placement
        .pods
        .iter()
        .map(|pod| cells.leaf_type(pod[0]));
    assert_eq!(
        types.collect::<Vec<_>>(),
        ["G", "G", "CPU", "CPU", "CPU", "CPU"]
    );
    start(&mut cells, gang(2, 0, "5x1CPU/0"));
    assert_eq!(
        text(&cells, &gang(1, 0, both)),
        "waits: needs 4 leaf cells in 4 pods; 3 of virtual cluster v's are not in use by its \
         guaranteed gangs, 0 are on bad or cordoned machines"
    );
    assert_eq!(
        text(&cells, &gang(1, 0, "2x4G/1+1x1TPU/1")),
        "never: no leaf cell of type \"TPU\" is promised to virtual cluster v there"
    );
    // Two of the pods have no machine together, so each needs its own.
    state(&mut cells, "n1", 6);
    state(&mut cells, "n2", 6);
    assert_eq!(text(&cells, &gang(1, 0, "1x4G/4+1x1CPU/4")), "on n1 n2");
    let got = text(&cells, &gang(1, 0, "2x4G/4+1x1CPU/4"));
    let expected = "the next one needs 4 CPU cores on one node; 2 are free on n";
    assert!(got.contains(expected), "{got}");
}

/// A gang in two chains that must go for one leaf type makes room for the other, too.
#[test]
fn one_victim_serves_two_leaf_types() {
    let mut cells = cells([100, 100]);
    start(&mut cells, gang(1, 0, "2x4G/0+7x1CPU/0"));
    start(&mut cells, gang(2, 1, "1x1CPU/0"));
    let got = text(&cells, &gang(3, 5, "1x1G/0+2x1CPU/0"));
    assert!(got.ends_with("without [1]"), "{got}");
}

#[test]
fn pods_of_any_type_go_around_the_others() {
    let cells = cells([100, 100]);
    for members in ["1x4G/0+1x3/0", "1x4/0+1x4G/0", "1x2/0+1x3G/0+1x2CPU/0"] {
        let gang = gang(1, 0, members);
        let Decision::Place(grant) = ask(&cells, &gang) else {
            panic!("{members}: {}", text(&cells, &gang));
        };
        let mut cells = cells.clone();
        cells.apply(CellEvent::Started { gang, grant }).unwrap();
        cells.audit().unwrap();
    }
}

/// On one machine with two leaf types, against adding up: a gang of any pods gets what it needs,
/// evicting only who may be, or it waits.
#[test]
fn one_machine_is_decided_exactly() {
    let text = TWO.replace("  - {cellType: NODE, cellAddress: n2}\n", "");
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("n2")).collect();
    let text = lines.join("\n").replace("Number: 2}", "Number: 1}");
    let spec = ClusterSpec::from_hived_yaml(&text).unwrap();
    let mut seen = [0; 3];
    for seed in 0..4000 {
        let mut random = SplitMix64::new(seed);
        let mut cells = Cells::new(&spec, Bins::default()).unwrap();
        state(&mut cells, "n1", 10);
        for id in 0..random.below(5) {
            let other = drawn(&mut random, id);
            if let Decision::Place(grant) = ask(&cells, &other) {
                cells
                    .apply(CellEvent::Started { gang: other, grant })
                    .unwrap();
            }
        }
        let asking = drawn(&mut random, 99);
        let got = match ask(&cells, &asking) {
            Decision::Place(_) => 0,
            Decision::Preempt { .. } => 1,
            Decision::Wait(_) => 2,
            Decision::Refuse(_) => continue,
        };
        seen[got] += 1;
        assert_eq!(got, by_sums(&cells, &asking), "seed {seed}: {asking:?}");
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

fn drawn(random: &mut SplitMix64, id: u64) -> Gang {
    let priority = *random.one_of(&[-1, 0, 1]).unwrap();
    let kinds = 1 + random.below(3);
    let member = |_| {
        let (pods, leaves) = (1 + random.below(2), 1 + random.below(2));
        let leaf_type = *random.one_of(&["G", "CPU"]).unwrap();
        format!("{pods}x{leaves}{leaf_type}/{}", random.below(5))
    };
    let members: Vec<String> = (0..kinds).map(member).collect();
    gang(id, priority, &members.join("+"))
}

/// 0 if it fits beside everything, 1 if without those it may evict, else 2.
fn by_sums(cells: &Cells, gang: &Gang) -> usize {
    let stays = |other: &Gang, all: bool| {
        all || gang.is_opportunistic()
            || !other.is_opportunistic() && other.priority >= gang.priority
    };
    let fits = |all: bool| {
        let others = cells.gangs().map(|running| running.0);
        let others: Vec<&Gang> = others
            .filter(|other| stays(other, all))
            .chain([gang])
            .collect();
        let sum = |of: &dyn Fn(&GangMember) -> u32| -> u32 {
            let members = others.iter().flat_map(|other| &other.members);
            members.map(|member| member.pods * of(member)).sum()
        };
        let leaves = |name: &str| {
            sum(&|member| {
                if member.leaf_type == name {
                    member.leaves
                } else {
                    0
                }
            })
        };
        leaves("G") <= 4 && leaves("CPU") <= 4 && sum(&|member| member.share.cpu) <= 10
    };
    match (fits(true), fits(false)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}
