use proptest::prelude::*;

use super::*;
use crate::cluster_spec::UnevenLevel;
use crate::inventory::AcceleratorKind;
use crate::node::{Device, DeviceLevel};

fn machine(models: &[&str], levels: &[(Level, &[&[u32]])]) -> Capacity {
    let device =
        |(index, model): (u32, &&str)| Device::simulated(format!("d{index}"), index, *model);
    let level = |(level, groups): &(Level, &[&[u32]])| DeviceLevel {
        level: *level,
        groups: groups.iter().map(|group| group.to_vec()).collect(),
    };
    Capacity {
        cpu: 8,
        memory_mb: 1,
        devices: (0..).zip(models).map(device).collect(),
        levels: levels.iter().map(level).collect(),
        port_first: 1,
        port_last: 2,
    }
}

fn found(machines: &[(&str, Capacity)]) -> Discovered {
    promised(machines, "{}")
}

/// What was found, promised as the virtual clusters' part of a description says.
fn promised(machines: &[(&str, Capacity)], vcs: &str) -> Discovered {
    let ids: Vec<NodeId> = machines.iter().map(|(id, _)| id.parse().unwrap()).collect();
    let nodes = ids.iter().zip(machines).map(|(id, (_, node))| (id, node));
    let vcs = ClusterSpec::from_hived_yaml(&format!("virtualClusters: {vcs}")).unwrap();
    ClusterSpec::of_nodes(nodes, &vcs.virtual_clusters)
}

/// A promise of so many cells.
fn cells(cell_type: &str, count: u32) -> String {
    format!("{{virtualCells: [{{cellType: {cell_type}, cellNumber: {count}}}]}}")
}

/// A cell in one line: `n1:V100-NODE-2(0 1)`, plain leaves left out.
fn line(cell: &CellSpec) -> String {
    let children = cell
        .children
        .iter()
        .filter(|cell| cell.cell_type != PLAIN_LEAF);
    let children: Vec<String> = children.map(line).collect();
    match &*children {
        [] if cell.children.is_empty() => cell.address.clone(),
        _ => format!(
            "{}:{}({})",
            cell.address,
            cell.cell_type,
            children.join(" ")
        ),
    }
}

/// The device cells of one machine.
#[track_caller]
fn check(models: &[&str], levels: &[(Level, &[&[u32]])], expect: &[&str]) {
    let found = found(&[("n1", machine(models, levels))]);
    assert_eq!(found.left_out, Vec::<String>::new());
    sound(&found.spec);
    let lines: Vec<String> = found.spec.cells.iter().map(line).collect();
    let (plain, devices) = lines.split_last().unwrap();
    assert_eq!(plain, "n1:CPU-NODE()");
    assert_eq!(devices, expect);
}

/// Every cell has the children of its type, no leaf is there twice, and all of it is promised.
fn sound(spec: &ClusterSpec) {
    fn leaves(spec: &ClusterSpec, cell: &CellSpec, found: &mut Vec<u32>) {
        match spec.cell_types.get(&cell.cell_type) {
            Some(kind) => {
                assert_eq!(cell.children.len(), kind.count as usize, "{cell:?}");
                for child in &cell.children {
                    assert_eq!(child.cell_type, kind.child);
                    leaves(spec, child, found);
                }
            }
            None => {
                assert!(cell.children.is_empty(), "{cell:?}");
                found.push(cell.address.parse().unwrap());
            }
        }
    }
    let mut by_node: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    let mut tops: BTreeMap<&str, u32> = BTreeMap::new();
    for cell in &spec.cells {
        let kind = &spec.cell_types[&cell.cell_type];
        assert!(kind.node_level, "{cell:?}");
        let machines = spec.path_down(&cell.cell_type).unwrap();
        let machines = machines
            .iter()
            .filter_map(|name| spec.cell_types.get(*name));
        assert_eq!(machines.filter(|kind| kind.node_level).count(), 1);
        leaves(spec, cell, by_node.entry(&cell.address).or_default());
        *tops.entry(&cell.cell_type).or_default() += 1;
    }
    for kind in spec.cell_types.values() {
        for level in &kind.uneven {
            assert!(kind.node_level && level.level.is_inside_node(), "{level:?}");
            let first = level.sizes[0];
            assert!(level.sizes.iter().any(|size| *size != first), "{level:?}");
        }
    }
    for (node, mut leaves) in by_node {
        leaves.sort_unstable();
        assert!(leaves.windows(2).all(|pair| pair[0] != pair[1]), "{node}");
        assert!(leaves.contains(&CPU_LEAF_FIRST), "{node}");
    }
    let vc = &spec.virtual_clusters[&"default".parse().unwrap()];
    let quota = vc.quota.iter();
    let quota = quota.map(|quota| (&*quota.path[0], quota.count)).collect();
    assert_eq!(tops, quota);
}

#[test]
fn regular_groups_become_levels() {
    use Level::{Numa, Nvlink, Pcie};
    let v100 = ["Tesla V100-SXM2"; 8];
    let numa: &[&[u32]] = &[&[4, 5, 6, 7], &[0, 1, 2, 3]];
    let pcie: &[&[u32]] = &[&[0, 2], &[1, 3], &[5, 4], &[6, 7]];
    check(&[], &[], &[]);
    check(&["T4"], &[], &["n1:T4-NODE-1(0)"]);
    check(
        &v100,
        &[(Numa, numa), (Pcie, pcie)],
        &["n1:Tesla-V100-SXM2-NODE-8-NUMA-4-PCIE-2(\
           0:Tesla-V100-SXM2-NUMA-4-PCIE-2(\
           0:Tesla-V100-SXM2-PCIE-2(0 2) 1:Tesla-V100-SXM2-PCIE-2(1 3)) \
           1:Tesla-V100-SXM2-NUMA-4-PCIE-2(\
           0:Tesla-V100-SXM2-PCIE-2(4 5) 1:Tesla-V100-SXM2-PCIE-2(6 7)))"],
    );
    // All of one machine in one group is a level too: who asks for it gets it.
    check(
        &["A", "A"],
        &[(Numa, &[&[1, 0]])],
        &["n1:A-NODE-2-NUMA-2(0:A-NUMA-2(0 1))"],
    );
    // Each type for itself.
    check(
        &["A", "B", "A", "B", "A", "A"],
        &[(Numa, &[&[0, 1, 2], &[3, 4, 5]])],
        &[
            "n1:A-NODE-4-NUMA-2(0:A-NUMA-2(0 2) 1:A-NUMA-2(4 5))",
            "n1:B-NODE-2-NUMA-1(0:B-NUMA-1(1) 1:B-NUMA-1(3))",
        ],
    );
    // The same groups under another name are another shape.
    check(
        &["A", "A"],
        &[(Nvlink, &[&[1, 0]])],
        &["n1:A-NODE-2-NVLINK-2(0:A-NVLINK-2(0 1))"],
    );
}

#[test]
fn uneven_groups_are_kept_beside_the_tree() {
    use Level::{Numa, Nvlink, Pcie};
    let check =
        |devices: usize, levels: &[(Level, &[&[u32]])], expect: (&str, &[(Level, &[u32])])| {
            let models = vec!["A"; devices];
            let found = found(&[("n1", machine(&models, levels))]);
            sound(&found.spec);
            let cell = &found.spec.cells[0];
            assert_eq!(line(cell), expect.0);
            let uneven = expect.1.iter().map(|(level, sizes)| UnevenLevel {
                level: *level,
                sizes: sizes.to_vec(),
            });
            let kind = &found.spec.cell_types[&cell.cell_type];
            assert_eq!(kind.uneven, uneven.collect::<Vec<_>>());
            // A promise of such a cell outlives the machine, with its groups.
            let named = promised(&[], &format!("{{x: {}}}", cells(&cell.cell_type, 1)));
            assert_eq!(named.unmet, []);
            assert_eq!(&named.spec.cell_types[&cell.cell_type], kind);
        };
    let snc: &[&[u32]] = &[&[0, 1, 2], &[3], &[4, 5, 6], &[7]];
    check(
        8,
        &[(Numa, snc)],
        (
            "n1:A-NODE-8-NUMA-3+3+1+1(0 1 2 4 5 6 3 7)",
            &[(Numa, &[3, 3, 1, 1])],
        ),
    );
    check(
        8,
        &[(Numa, &[&[0, 1, 2, 3], &[4, 5], &[6, 7]])],
        (
            "n1:A-NODE-8-NUMA-4+2+2(0 1 2 3 4 5 6 7)",
            &[(Numa, &[4, 2, 2])],
        ),
    );
    check(
        3,
        &[(Numa, &[&[0], &[1, 2]])],
        ("n1:A-NODE-3-NUMA-2+1(1 2 0)", &[(Numa, &[2, 1])]),
    );
    check(
        7,
        &[(Numa, &[&[0, 1, 2, 3], &[4, 5, 6]])],
        ("n1:A-NODE-7-NUMA-4+3(0 1 2 3 4 5 6)", &[(Numa, &[4, 3])]),
    );
    // Equal pairs below uneven nodes are cells, and uneven switches below equal nodes none.
    check(
        6,
        &[
            (Numa, &[&[0, 1, 2, 3], &[4, 5]]),
            (Pcie, &[&[0, 1], &[2, 3], &[4, 5]]),
        ],
        (
            "n1:A-NODE-6-NUMA-4+2-PCIE-2(0:A-PCIE-2(0 1) 1:A-PCIE-2(2 3) 2:A-PCIE-2(4 5))",
            &[(Numa, &[4, 2])],
        ),
    );
    check(
        8,
        &[
            (Numa, &[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
            (Pcie, &[&[1, 2, 3], &[4, 5, 6]]),
        ],
        (
            "n1:A-NODE-8-NUMA-4-PCIE-3+1+3+1(0:A-NUMA-4(1 2 3 0) 1:A-NUMA-4(4 5 6 7))",
            &[(Pcie, &[3, 1, 3, 1])],
        ),
    );
    // Two heights of switches, runs of equal groups, and a device in no group.
    check(
        4,
        &[(Pcie, &[&[0, 1, 2, 3]]), (Pcie, &[&[0, 1], &[2, 3]])],
        (
            "n1:A-NODE-4-PCIE-4-PCIE-2(0:A-PCIE-4-PCIE-2(0:A-PCIE-2(0 1) 1:A-PCIE-2(2 3)))",
            &[],
        ),
    );
    check(
        7,
        &[(Nvlink, &[&[0, 1], &[2, 3], &[4, 5]])],
        (
            "n1:A-NODE-7-NVLINK-3x2+1(0 1 2 3 4 5 6)",
            &[(Nvlink, &[2, 2, 2, 1])],
        ),
    );
}

#[test]
fn what_tells_nothing_is_left_out() {
    use Level::{Node, Numa, Pcie};
    let four = ["A"; 4];
    let flat = ["n1:A-NODE-4(0 1 2 3)"];
    check(&four, &[(Numa, &[&[0], &[1]])], &flat);
    check(&four, &[(Numa, &[&[0, 1], &[1, 2], &[3]])], &flat);
    check(&four, &[(Numa, &[&[0, 1], &[2, 3, 3]])], &flat);
    check(&four, &[(Numa, &[])], &flat);
    check(&four, &[(Node, &[&[0, 1], &[2, 3]])], &flat);
    // Across the groups of a wider level, and a second time.
    check(
        &four,
        &[
            (Numa, &[&[0, 1], &[2, 3]]),
            (Pcie, &[&[1, 2], &[0, 3]]),
            (Numa, &[&[0], &[1], &[2], &[3]]),
        ],
        &["n1:A-NODE-4-NUMA-2(0:A-NUMA-2(0 1) 1:A-NUMA-2(2 3))"],
    );
}

#[test]
fn machines_of_one_shape_share_a_chain_in_any_order() {
    let machines = [
        ("b", machine(&["A", "A"], &[])),
        ("a", machine(&["A", "A"], &[])),
        ("c", machine(&["A"], &[])),
    ];
    let mut sick = machines.clone();
    sick[0].1.devices[1].fault = Some("it is sick".to_owned());
    let found_once = found(&machines);
    sound(&found_once.spec);
    assert_eq!(found(&sick), found_once);
    sick.reverse();
    assert_eq!(found(&sick), found_once);
    let vc = &found_once.spec.virtual_clusters[&"default".parse().unwrap()];
    let quota = vc.quota.iter().map(|quota| (&*quota.path[0], quota.count));
    let quota: Vec<_> = quota.collect();
    assert_eq!(quota, [("A-NODE-1", 1), ("A-NODE-2", 2), ("CPU-NODE", 3)]);
    let none = found(&[]);
    assert!(none.spec.cells.is_empty());
}

#[test]
fn device_types_are_plain_words_and_their_own() {
    for (model, expect) in [
        ("Tesla V100-SXM2-16GB", "Tesla-V100-SXM2-16GB"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA-A100-PCIE-40GB"),
        ("  a.b//c ", "a-b-c"),
        ("\u{1f980}", "DEVICE"),
        ("", "DEVICE"),
        ("CPU", "CPU-DEVICE"),
        ("CPU NODE", "CPU-NODE-DEVICE"),
        ("V100-NODE-8", "V100-NODE-8-DEVICE"),
        ("V100-pcie-2", "V100-pcie-2-DEVICE"),
    ] {
        assert_eq!(leaf_name(AcceleratorKind::Gpu, model), expect, "{model}");
    }
    for (kind, model, expect) in [
        (AcceleratorKind::Fpga, "Alveo U200", "FPGA-Alveo-U200"),
        (AcceleratorKind::Npu, "Ascend 910", "NPU-Ascend-910"),
        (AcceleratorKind::Npu, "NPU X", "NPU-X"),
        (AcceleratorKind::Other, "NPU X", "OTHER-NPU-X"),
        (AcceleratorKind::Gpu, "FPGA X", "GPU-FPGA-X"),
    ] {
        assert_eq!(leaf_name(kind, model), expect);
        assert_eq!(kind_of_leaf(expect), kind);
    }
    // A model called like another's machine.
    check(
        &["A", "A-NODE-1", "CPU"],
        &[],
        &[
            "n1:A-NODE-1(0)",
            "n1:A-NODE-1-DEVICE-NODE-1(1)",
            "n1:CPU-DEVICE-NODE-1(2)",
        ],
    );
}

#[test]
fn what_is_left_out_is_told() {
    let mut many = machine(&["A"; 130], &[]);
    many.devices.push(many.devices[0].clone());
    many.devices[129].index = CPU_LEAF_FIRST;
    let found = found(&[("n1", many)]);
    sound(&found.spec);
    let expect = [
        "device 1000000 of n1 is left out: its index is above 999999",
        "n1 has 129 devices of type A: only the first 128 are used",
    ];
    assert_eq!(found.left_out, expect);
}

#[test]
fn of_two_devices_with_one_index_the_healthy_one_counts() {
    let mut node = machine(&["unknown", "A"], &[]);
    node.devices[0].fault = Some("it does not answer".to_owned());
    node.devices[1].index = 0;
    let found = found(&[("n1", node)]);
    assert_eq!(line(&found.spec.cells[0]), "n1:A-NODE-1(0)");
}

/// Devices by index and model, levels by number.
type Strange = (Vec<(u32, String)>, Vec<(usize, Vec<Vec<u32>>)>);

/// Devices by index as a machine's cells have them, the CPUs' places left out.
fn devices_of(spec: &ClusterSpec) -> Vec<u32> {
    fn leaves(cell: &CellSpec) -> Vec<u32> {
        match &*cell.children {
            [] => vec![cell.address.parse().unwrap()],
            children => children.iter().flat_map(leaves).collect(),
        }
    }
    let cells = spec
        .cells
        .iter()
        .filter(|cell| cell.cell_type != PLAIN_NODE);
    cells.flat_map(leaves).collect()
}

/// Groups at random: for each device the number of its group at each of two levels, or none.
fn groups(of: impl Iterator<Item = (u32, Option<u8>)>) -> Vec<Vec<u32>> {
    let mut groups: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
    for (device, group) in of {
        if let Some(group) = group {
            groups.entry(group).or_default().push(device);
        }
    }
    groups.into_values().collect()
}

proptest! {
    /// Whatever groups a machine has, each device is in its cells once, and the devices of an
    /// uneven group are a group of the machine.
    #[test]
    fn no_device_is_lost_or_listed_twice(
        devices in prop::collection::vec(
            (prop::option::of(0u8..4), prop::option::of(0u8..2), "(A|B)"),
            1..16,
        ),
    ) {
        let models: Vec<&str> = devices.iter().map(|(_, _, model)| &**model).collect();
        let mut node = machine(&models, &[]);
        let outer = groups((0..).zip(&devices).map(|(at, (outer, _, _))| (at, *outer)));
        let inner = groups((0..).zip(&devices).map(|(at, (outer, inner, _))| {
            (at, outer.and_then(|outer| Some(outer * 2 + (*inner)?)))
        }));
        let level = |level, groups: &Vec<Vec<u32>>| DeviceLevel { level, groups: groups.clone() };
        node.levels = vec![level(Level::Numa, &outer), level(Level::Pcie, &inner)];
        let found = found(&[("n1", node)]);
        sound(&found.spec);
        let mut all = devices_of(&found.spec);
        for cell in &found.spec.cells {
            let own = devices_of(&ClusterSpec { cells: vec![cell.clone()], ..ClusterSpec::default() });
            for uneven in &found.spec.cell_types[&cell.cell_type].uneven {
                let given = if uneven.level == Level::Numa { &outer } else { &inner };
                let mut left = &own[..];
                for size in &uneven.sizes {
                    let (group, rest) = left.split_at(*size as usize);
                    let is_given = |given: &Vec<u32>| group.iter().all(|it| given.contains(it));
                    prop_assert!(*size == 1 || given.iter().any(is_given), "{group:?}");
                    left = rest;
                }
                prop_assert!(left.is_empty());
            }
        }
        all.sort_unstable();
        let expect = 0..u32::try_from(devices.len()).unwrap();
        prop_assert!(all.into_iter().eq(expect));
    }

    /// Whatever machines report, the cluster made of it is sound.
    #[test]
    fn no_machine_is_too_strange(
        machines in prop::collection::vec(
            (
                prop::collection::vec((0u32..12, "(A|A-NODE-2|CPU|b.c)"), 0..10),
                prop::collection::vec(
                    (0usize..5, prop::collection::vec(prop::collection::vec(0u32..12, 0..4), 0..5)),
                    0..4,
                ),
            ),
            0..4,
        ),
    ) {
        let node = |(devices, levels): &Strange| {
            let models: Vec<&str> = devices.iter().map(|(_, model)| &**model).collect();
            let mut node = machine(&models, &[]);
            for (device, (index, _)) in node.devices.iter_mut().zip(devices) {
                device.index = *index;
            }
            let level = |(level, groups): &(usize, Vec<Vec<u32>>)| DeviceLevel {
                level: Level::ALL[*level],
                groups: groups.clone(),
            };
            node.levels = levels.iter().map(level).collect();
            node
        };
        let nodes: Vec<Capacity> = machines.iter().map(node).collect();
        let names = ["n1", "n2", "n3", "n4"];
        let nodes: Vec<(&str, Capacity)> = names.into_iter().zip(nodes).collect();
        sound(&found(&nodes).spec);
    }
}

#[test]
fn a_promise_outlives_a_machine_that_is_away() {
    let machines = [
        ("a", machine(&["A", "A"], &[(Level::Numa, &[&[0], &[1]])])),
        ("b", machine(&["A", "A"], &[(Level::Numa, &[&[0], &[1]])])),
    ];
    let top = "A-NODE-2-NUMA-1";
    let half = format!("{top}.A-NUMA-1");
    let vcs = format!("{{x: {}, y: {}}}", cells(top, 1), cells(&half, 3));
    let check = |machines: &[(&str, Capacity)], expect: &[&str]| {
        let found = promised(machines, &vcs);
        assert_eq!(found.unmet, []);
        let names: Vec<&str> = found
            .spec
            .virtual_clusters
            .keys()
            .map(|vc| vc.as_str())
            .collect();
        assert_eq!(names, ["x", "y"]);
        let tops = found.spec.cells.iter().filter(|cell| cell.cell_type == top);
        let tops: Vec<&str> = tops.map(|cell| &*cell.address).collect();
        assert_eq!(tops, expect);
        assert!(found.spec.cell_types.contains_key("A-NUMA-1"));
    };
    check(&machines, &["a", "b", "missing machine 1"]);
    check(
        &machines[1..],
        &["b", "missing machine 1", "missing machine 2"],
    );
    check(
        &[],
        &[
            "missing machine 1",
            "missing machine 2",
            "missing machine 3",
        ],
    );
    // Machines of two types are two machines; each has places for tasks without devices.
    let vcs = format!(
        "{{x: {}, y: {}, z: {}, none: {}}}",
        cells("A-NODE-1", 2),
        cells("B-NODE-1", 1),
        cells("CPU-NODE", 1),
        cells("C-NODE-1", 0)
    );
    let absent = promised(&[], &vcs);
    assert_eq!(absent.unmet, []);
    let lines: Vec<String> = absent.spec.cells.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "missing machine 1:A-NODE-1(0)",
            "missing machine 2:A-NODE-1(0)",
            "missing machine 3:B-NODE-1(0)",
            "missing machine 1:CPU-NODE()",
        ]
    );
    // What nobody is promised is there all the same.
    let some = promised(&machines, &format!("{{x: {}}}", cells("CPU-NODE", 1)));
    assert_eq!(some.spec.cells.len(), 4);
}

#[test]
fn what_no_machine_could_have_is_not_promised() {
    let machines = [("a", machine(&["A", "A"], &[]))];
    for (promise, problem) in [
        (
            cells("A-NODE", 1),
            "no machine has cells of type A-NODE; there are: A-NODE-2, CPU-NODE",
        ),
        (
            cells("A-NODE-02", 1),
            "no machine has cells of type A-NODE-02",
        ),
        (
            cells("A-NODE-0", 1),
            "no machine has cells of type A-NODE-0",
        ),
        (
            cells("A-NODE-129", 1),
            "no machine has cells of type A-NODE-129",
        ),
        (
            cells("A-NODE-8-NUMA-3", 1),
            "no machine has cells of type A-NODE-8-NUMA-3",
        ),
        (
            cells("A-NODE-4-NODE-2", 1),
            "no machine has cells of type A-NODE-4-NODE-2",
        ),
        (
            cells("A-NODE-4-RACK-2", 1),
            "no machine has cells of type A-NODE-4-RACK-2",
        ),
        (
            cells("CPU-NODE-8", 1),
            "no machine has cells of type CPU-NODE-8",
        ),
        (
            cells("A-NUMA-2", 1),
            "no machine has cells of type A-NUMA-2",
        ),
        (
            cells("A-NODE-8-NUMA-4+4", 1),
            "no machine has cells of type A-NODE-8-NUMA-4+4",
        ),
        (
            cells("A-NODE-8-NUMA-4+3", 1),
            "no machine has cells of type A-NODE-8-NUMA-4+3",
        ),
        (
            cells("A-NODE-8-NUMA-5+3-PCIE-4", 1),
            "no machine has cells of type A-NODE-8-NUMA-5+3-PCIE-4",
        ),
        (
            cells("A-NODE-3-NUMA-3x1", 1),
            "no machine has cells of type A-NODE-3-NUMA-3x1",
        ),
        (cells("NODE-2", 1), "no machine has cells of type NODE-2"),
        (cells("A", 1), "no machine has cells of type A;"),
        (
            cells("A-NODE-2.B", 1),
            "there is no such path of types; there is: A-NODE-2.A",
        ),
        (cells("A-NODE-2.A.A", 1), "there is no such path of types"),
        (
            cells("A-NODE-2", u32::MAX),
            "are more than a cluster can have",
        ),
        (
            "{pinnedCells: [{pinnedCellId: p}]}".to_owned(),
            "only under physicalCluster",
        ),
    ] {
        let vcs = format!("{{x: {promise}, y: {}}}", cells("A-NODE-2.A", 1));
        let found = promised(&machines, &vcs);
        let [one] = &*found.unmet else {
            panic!("{promise}: {:?}", found.unmet);
        };
        assert!(one.path.starts_with("virtualClusters.x."), "{one}");
        assert!(one.message.contains(problem), "{promise}: {one}");
        let vcs = &found.spec.virtual_clusters;
        assert!(vcs[&"x".parse().unwrap()].quota.is_empty(), "{promise}");
        assert_eq!(vcs[&"y".parse().unwrap()].quota.len(), 1, "{promise}");
    }
}
