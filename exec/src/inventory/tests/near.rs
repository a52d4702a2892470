//! Levels: shapes of real machines as `nvidia-smi topo -m` told them, and what says nothing.

use super::tree::{Tree, function};
use super::*;

/// A machine with a GPU for each NUMA number, each on a bus of its own.
fn by_numa(models: &[&str], numa: &[i32]) -> Inventory {
    let tree = Tree::new();
    for node in 0..9 {
        tree.dir(&format!("sys/devices/system/node/node{node}"));
    }
    for (bus, (node, model)) in numa.iter().zip(models.iter().cycle()).enumerate() {
        let path = format!(
            "pci0000:{bus:02x}/0000:{bus:02x}:00.0/0000:{:02x}:00.0",
            bus + 0x40
        );
        tree.pci(&function(&path, 0x0302, model, *node));
    }
    tree.read()
}

#[test]
fn numa_groups_may_be_unequal() {
    for (machine, numa, expect) in [
        (
            "DGX A100",
            &[3, 3, 1, 1, 7, 7, 5, 5][..],
            "numa 0,1 2,3 4,5 6,7",
        ),
        (
            "8 Hopper, SNC2",
            &[0, 0, 0, 1, 2, 2, 2, 3],
            "numa 0,1,2 3 4,5,6 7",
        ),
        // Where the rest is not known, it is in no group.
        (
            "8 Hopper, SNC3",
            &[0, 0, 2, -1, -1, -1, -1, -1],
            "numa 0,1 2",
        ),
        ("8 H800", &[0, 0, 0, 0, 1, 1, 1, 1], "numa 0,1,2,3 4,5,6,7"),
        (
            "one of 8 failed",
            &[0, 0, 0, 0, 1, 1, 1],
            "numa 0,1,2,3 4,5,6",
        ),
        ("MI250X", &[0, 0, 0, 0, 1, 1, 2, 2], "numa 0,1,2,3 4,5 6,7"),
        ("GB200", &[0, 0, 1, 1], "numa 0,1 2,3"),
        // One group of all devices, or of one each, says nothing.
        ("4 below one host bridge", &[0, 0, 0, 0], ""),
        ("one each", &[0, 1, 2, 3], ""),
        ("GH200", &[0], ""),
        ("unknown", &[-1, -1, -1, -1], ""),
        ("numbers out of order", &[1, 0, 1, 0], "numa 0,2 1,3"),
    ] {
        assert_eq!(
            levels_line(&by_numa(&["10de:2330"], numa)),
            expect,
            "{machine}"
        );
    }
}

#[test]
fn groups_have_devices_of_one_model() {
    let models = ["10de:2330", "10de:20b0"];
    for (numa, expect) in [
        (&[0, 0, 0, 0, 1, 1, 1, 1][..], "numa 0,2 1,3 4,6 5,7"),
        (&[0, 1, 0, 1], "numa 0,2 1,3"),
        (&[0, 0, 0, 0], ""),
        (&[0, 0, 1, 1], ""),
    ] {
        assert_eq!(levels_line(&by_numa(&models, numa)), expect, "{numa:?}");
    }
}

/// GPUs by their paths; the kernel tells no NUMA node.
fn by_path(paths: &[&str]) -> Tree {
    let tree = Tree::new();
    for node in 0..2 {
        tree.dir(&format!("sys/devices/system/node/node{node}"));
    }
    for path in paths {
        tree.pci(&function(path, 0x0302, "10de:2330", -1));
    }
    tree
}

#[test]
fn both_levels_of_switches_are_found() {
    for (machine, paths, expect) in [
        (
            "pairs, sockets with one port for each pair",
            &[
                "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0",
                "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:10.0/0000:04:00.0",
                "pci0000:00/0000:00:02.0/0000:05:00.0/0000:06:08.0/0000:07:00.0",
                "pci0000:00/0000:00:02.0/0000:05:00.0/0000:06:10.0/0000:08:00.0",
            ][..],
            "pcie 0,1 2,3",
        ),
        // Switches below a switch; one card beside them on a port of its own.
        (
            "quads of pairs and one",
            &[
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:00.0/0000:15:00.0",
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:08.0/0000:16:00.0",
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:08.0/0000:17:00.0/0000:18:00.0/0000:19:00.0",
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:08.0/0000:17:00.0/0000:18:08.0/0000:1a:00.0",
                "pci0000:20/0000:20:00.0/0000:21:00.0",
            ],
            "pcie 0,1,2,3; pcie 0,1 2,3",
        ),
        // A pair on another socket is as near as the pairs below the quad.
        (
            "a quad of pairs and a pair",
            &[
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:00.0/0000:15:00.0",
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:00.0/0000:13:00.0/0000:14:08.0/0000:16:00.0",
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:08.0/0000:17:00.0",
                "pci0000:20/0000:20:00.0/0000:21:00.0/0000:22:00.0/0000:23:00.0",
                "pci0000:20/0000:20:00.0/0000:21:00.0/0000:22:08.0/0000:24:00.0",
            ],
            "pcie 0,1,2; pcie 0,1 3,4",
        ),
        (
            "a switch for each",
            &[
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:00.0/0000:13:00.0",
                "pci0000:20/0000:20:00.0/0000:21:00.0/0000:22:00.0/0000:23:00.0",
            ],
            "",
        ),
        (
            "one switch for all",
            &[
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:00.0/0000:13:00.0",
                "pci0000:10/0000:10:00.0/0000:11:00.0/0000:12:08.0/0000:14:00.0",
            ],
            "",
        ),
    ] {
        assert_eq!(levels_line(&by_path(paths).read()), expect, "{machine}");
    }
}

/// Two sockets with a switch each and four cards below it.
#[test]
fn one_switch_a_socket_is_as_wide_as_the_socket() {
    let tree = Tree::new();
    for (socket, numa) in [("10", 0), ("20", 1)] {
        for port in 0..4 {
            let path = format!(
                "pci0000:{socket}/0000:{socket}:00.0/0000:{socket}:01.0/0000:{socket}:1{port}.0/0001:{socket}:0{port}.0"
            );
            tree.pci(&function(&path, 0x0300, "10de:2684", numa));
        }
    }
    assert_eq!(
        levels_line(&tree.read()),
        "numa 0,1,2,3 4,5,6,7; pcie 0,1,2,3 4,5,6,7"
    );
}

/// A bridge of another kind, as in a virtual machine, is no switch.
#[test]
fn only_bridges_to_pci_divide() {
    let paths = [
        "pci0000:10/0000:10:00.0/0000:11:00.0",
        "pci0000:10/0000:10:00.0/0000:12:00.0",
        "pci0000:20/0000:20:00.0/0000:21:00.0",
    ];
    let tree = by_path(&paths);
    assert_eq!(levels_line(&tree.read()), "pcie 0,1");
    tree.file("sys/devices/pci0000:10/0000:10:00.0/class", "0x060000\n");
    assert_eq!(levels_line(&tree.read()), "");
}

fn partition(card: &str) -> Accelerator {
    Accelerator {
        kind: muster_model::inventory::AcceleratorKind::Gpu,
        vendor: "amd".into(),
        model: "Instinct MI300X".into(),
        pci: Some(card.into()),
        numa: None,
        memory_mb: 24_576,
        partition_of: Some(card.into()),
    }
}

/// A card that its driver lists by partitions is listed. Its own switch groups nothing but the
/// partitions of one card.
#[test]
fn partitions_are_on_their_card() {
    let tree = Tree::new();
    let cards = ["0000:13:00.0", "0000:14:00.0", "0000:23:00.0"];
    for node in 0..2 {
        tree.dir(&format!("sys/devices/system/node/node{node}"));
    }
    let below = "pci0000:10/0000:10:00.0/0000:11:00.0";
    tree.pci(&function(
        &format!("{below}/0000:12:00.0/{}", cards[0]),
        0x1200,
        "1002:74a1",
        0,
    ))
    .pci(&function(
        &format!("{below}/0000:12:08.0/{}", cards[1]),
        0x1200,
        "1002:74a1",
        0,
    ))
    .pci(&function(
        &format!("pci0000:20/0000:20:00.0/{}", cards[2]),
        0x1200,
        "1002:74a1",
        1,
    ));
    let nvidia = VendorInventory {
        devices: vec![listed(Accelerator {
            vendor: "nvidia".into(),
            pci: Some("0000:77:00.0".into()),
            partition_of: None,
            ..partition("")
        })],
        ..VendorInventory::default()
    };
    let amd = VendorInventory {
        devices: cards
            .iter()
            .flat_map(|card| [partition(card), partition(card)])
            .map(listed)
            .collect(),
        levels: vec![DeviceLevel {
            level: Level::Nvlink,
            groups: vec![vec![0, 1, 2, 3, 4, 5]],
        }],
        problems: Vec::new(),
    };
    let mut found = Devices::of_vendors(vec![nvidia, amd]);
    let host = HostReadings::read(tree.root());
    found.add_bus(&of_root(tree.root()), &host.numa);
    assert_eq!(found.devices.len(), 7, "{:?}", found.devices);
    let numa: Vec<Option<u32>> = found.accelerators().map(|device| device.numa).collect();
    assert_eq!(
        numa,
        [None, Some(0), Some(0), Some(0), Some(0), Some(1), Some(1)]
    );
    let levels: Vec<String> = found.levels.iter().map(level_line).collect();
    assert_eq!(
        levels,
        ["nvlink 1,2,3,4,5,6", "numa 1,2,3,4 5,6", "pcie 1,2,3,4"]
    );
}

fn listed(accelerator: Accelerator) -> FoundDevice {
    FoundDevice::listed(accelerator, None)
}

/// A card of another vendor in the slot of a listed one is not that one.
#[test]
fn a_driver_lists_cards_of_its_vendor_only() {
    let tree = Tree::new();
    tree.flat(&[
        ("0000:84:00.0", 0x0302, "10de:1094", 1),
        ("0000:84:00.1", 0x0300, "1002:6798", 1),
    ]);
    let nvidia = VendorInventory {
        devices: vec![listed(Accelerator {
            vendor: "nvidia".into(),
            partition_of: None,
            ..partition("0000:84:00.0")
        })],
        ..VendorInventory::default()
    };
    let mut found = Devices::of_vendors(vec![nvidia]);
    found.add_bus(&of_root(tree.root()), &NumaNodes::default());
    let vendors: Vec<&str> = found.accelerators().map(|it| it.vendor.as_str()).collect();
    assert_eq!(vendors, ["nvidia", "amd"]);
}

/// Levels of one kind by two vendors are one level; others stay.
#[test]
fn levels_of_two_vendors_are_joined() {
    let vendor = |levels: &[(Level, &[&[u32]])]| VendorInventory {
        devices: vec![listed(partition("0000:01:00.0")); 2],
        levels: levels
            .iter()
            .map(|(level, groups)| DeviceLevel {
                level: *level,
                groups: groups.iter().map(|group| group.to_vec()).collect(),
            })
            .collect(),
        problems: Vec::new(),
    };
    let vendors = vec![
        vendor(&[(Level::Nvlink, &[&[0, 1]])]),
        vendor(&[(Level::Nvlink, &[&[0], &[1]]), (Level::Pcie, &[&[1]])]),
    ];
    let found = Devices::of_vendors(vendors);
    let levels: Vec<String> = found.levels.iter().map(level_line).collect();
    assert_eq!(levels, ["nvlink 0,1 2 3", "pcie 3"]);
}

/// Of a card that stands alone below its switch, the partitions make no height of switches.
#[test]
fn partitions_do_not_move_the_levels_of_others() {
    let place = |card: &str, bridges: &[&str]| levels::DevicePlace {
        model: "M".into(),
        card: card.into(),
        numa: None,
        bridges: bridges.iter().map(|bridge| (*bridge).to_owned()).collect(),
        is_listed: true,
    };
    let places = [
        place("a", &["root", "port a"]),
        place("a", &["root", "port a"]),
        place("b", &["root", "port b"]),
        place("c", &["other root"]),
        place("d", &["other root"]),
    ];
    let found: Vec<String> = levels::levels(&places).iter().map(level_line).collect();
    assert_eq!(found, ["pcie 0,1,2 3,4"]);
}

/// Bridges between pairs of cards are narrower than a socket, links of all are wider.
#[test]
fn the_widest_level_comes_first() {
    let tree = Tree::new();
    for (bus, numa) in [
        ("11", 0),
        ("12", 0),
        ("13", 0),
        ("14", 0),
        ("21", 1),
        ("22", 1),
    ] {
        tree.flat(&[(&*format!("0000:{bus}:00.0"), 0x0302, "10de:2331", numa)]);
    }
    let gpu = |bus: &str| Accelerator {
        vendor: "nvidia".into(),
        pci: Some(format!("0000:{bus}:00.0")),
        partition_of: None,
        ..partition("")
    };
    let levels = |groups: &[&[u32]]| {
        let vendor = VendorInventory {
            devices: ["11", "12", "13", "14", "21", "22"]
                .map(|bus| listed(gpu(bus)))
                .into(),
            levels: vec![DeviceLevel {
                level: Level::Nvlink,
                groups: groups.iter().map(|group| group.to_vec()).collect(),
            }],
            problems: Vec::new(),
        };
        let mut found = Devices::of_vendors(vec![vendor]);
        found.add_bus(&of_root(tree.root()), &NumaNodes::default());
        found.levels.iter().map(level_line).collect::<Vec<_>>()
    };
    let pairs = levels(&[&[0, 1], &[2, 3], &[4, 5]]);
    assert_eq!(pairs, ["numa 0,1,2,3 4,5", "nvlink 0,1 2,3 4,5"]);
    let all = levels(&[&[0, 1, 2, 3, 4, 5]]);
    assert_eq!(all, ["nvlink 0,1,2,3,4,5", "numa 0,1,2,3 4,5"]);
}
