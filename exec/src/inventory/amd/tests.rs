use std::collections::BTreeSet;
use std::fs;

use crate::testing::unpack_capture;

use super::*;

/// Groups of a level, each as its first and last and how many there are.
fn spans(levels: &[DeviceLevel], level: Level) -> Vec<(u32, u32, usize)> {
    let of_level = levels.iter().filter(|known| known.level == level);
    let groups = of_level.flat_map(|known| &known.groups);
    groups
        .map(|group| (group[0], group[group.len() - 1], group.len()))
        .collect()
}

/// Places of the devices of a NUMA node.
fn of_numa(inventory: &VendorInventory, numa: Option<u32>) -> Vec<usize> {
    let devices = inventory.devices.iter().enumerate();
    let near = devices.filter(|(_, device)| device.accelerator.numa == numa);
    near.map(|(at, _)| at).collect()
}

#[test]
fn two_hives_in_the_order_of_the_driver() {
    let root = unpack_capture("amd-mi210-8-two-hives").unwrap();
    let inventory = read(root.path());
    let pci = inventory
        .devices
        .iter()
        .map(|device| device.accelerator.pci.as_deref());
    let pci: Vec<&str> = pci.map(Option::unwrap).collect();
    let bus = ["63", "43", "03", "26", "e3", "c3", "83", "a3"];
    assert_eq!(pci, bus.map(|bus| format!("0000:{bus}:00.0")));
    for device in inventory.devices.iter().map(|it| &it.accelerator) {
        assert_eq!(device.model, "Instinct MI210");
        assert_eq!(
            (device.kind, &*device.vendor),
            (AcceleratorKind::Gpu, "amd")
        );
        assert_eq!((device.memory_mb, &device.partition_of), (0, &None));
    }
    let groups = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    let hives = DeviceLevel {
        level: Level::Nvlink,
        groups,
    };
    assert_eq!(inventory.levels, [hives]);
    assert_eq!(of_numa(&inventory, Some(0)), [0, 1, 2, 3]);
    assert_eq!(of_numa(&inventory, Some(1)), [4, 5, 6, 7]);
    assert_eq!(inventory.problems, []);
    let (gpus, _) = gpus(root.path());
    for (at, gpu) in (0..).zip(&gpus) {
        assert_eq!((gpu.compute_units, gpu.dies), (104, Some(1)));
        let own = format!("/dev/dri/renderD{}", 128 + at);
        assert_eq!(device_files(gpu), ["/dev/kfd".to_owned(), own]);
    }
}

#[test]
fn partitions_of_eight_cards() {
    let root = unpack_capture("amd-mi300x-8-cpx").unwrap();
    let inventory = read(root.path());
    assert_eq!(inventory.devices.len(), 63);
    assert_eq!(inventory.problems, []);
    let mut cards = BTreeSet::new();
    let (gpus, _) = gpus(root.path());
    let devices = inventory.devices.iter().map(|it| &it.accelerator);
    for (at, (gpu, device)) in (0..).zip(gpus.iter().zip(devices)) {
        let (card, partition) = (at / 8, at % 8);
        assert_eq!(device.model, "Instinct MI300X");
        assert_eq!(gpu.partition, Some(partition));
        assert_eq!((gpu.compute_units, gpu.dies), (38, Some(1)));
        assert_eq!(gpu.render_minor, Some(128 + 8 * card + partition));
        assert_eq!(device.numa, Some(card / 4), "{at}");
        let of_card = device.partition_of.clone().unwrap();
        let own = format!("{}.{partition}", of_card.strip_suffix(".0").unwrap());
        assert_eq!(device.pci.as_deref(), Some(&*own));
        cards.insert((card, of_card, gpu.unique_id));
    }
    assert_eq!(cards.len(), 8, "{cards:?}");
    assert_eq!(
        inventory.devices[0].accelerator.pci.as_deref(),
        Some("0000:05:00.0")
    );
    let ids: BTreeSet<String> = gpus.iter().map(KfdGpu::id).collect();
    assert_eq!(ids.len(), 63);
    // All cards are one hive. The last card has 7 partitions in the capture.
    assert_eq!(spans(&inventory.levels, Level::Nvlink), [(0, 62, 63)]);
    let card = |first: u32| (first, (first + 7).min(62), if first < 56 { 8 } else { 7 });
    let expect: Vec<_> = (0..8).map(|number| card(8 * number)).collect();
    assert_eq!(spans(&inventory.levels, Level::Pcie), expect);
}

#[test]
fn an_old_kernel_that_tells_less() {
    let root = unpack_capture("amd-vega-old-kernel").unwrap();
    let inventory = read(root.path());
    let [device] = &inventory.devices[..] else {
        panic!("{inventory:?}")
    };
    let device = &device.accelerator;
    assert_eq!(device.model, "Instinct MI25");
    assert_eq!(device.pci.as_deref(), Some("0000:19:00.0"));
    assert_eq!(device.memory_mb, 17_163_091_968 >> 20);
    assert_eq!((device.numa, &device.partition_of), (Some(0), &None));
    assert_eq!(inventory.levels, []);
    // The capture has a second node, which was copied from the first by hand.
    let names: Vec<_> = inventory.problems.iter().map(|p| &*p.name).collect();
    assert_eq!(names, ["kfd-duplicate"]);
    let (gpus, _) = gpus(root.path());
    assert_eq!((gpus[0].dies, gpus[0].hive), (None, None));
    assert_eq!(device_files(&gpus[0]), ["/dev/kfd", "/dev/dri/renderD128"]);
}

#[test]
fn a_machine_without_the_driver_has_none() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(read(root.path()), VendorInventory::default());
}

/// A topology: a node's properties, its links to others with their weights, its banks of memory.
struct KfdTree(tempfile::TempDir);

impl KfdTree {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn node(&self, node: u32, properties: &[(&str, u64)]) {
        let lines = properties
            .iter()
            .map(|(name, value)| format!("{name} {value}\n"));
        let path = format!("sys/class/kfd/kfd/topology/nodes/{node}/properties");
        self.write(&path, &lines.collect::<String>());
    }

    fn cpu(&self, node: u32) {
        self.node(node, &[("cpu_cores_count", 8), ("simd_count", 0)]);
    }

    fn gpu(&self, node: u32, location: u64, more: &[(&str, u64)]) {
        let mut all = vec![
            ("simd_count", 440),
            ("simd_per_cu", 4),
            ("location_id", location),
        ];
        all.extend(more);
        self.node(node, &all);
    }

    fn part(&self, node: u32, kind: &str, number: u32, lines: &str) {
        let nodes = "sys/class/kfd/kfd/topology/nodes";
        self.write(&format!("{nodes}/{node}/{kind}/{number}/properties"), lines);
    }

    fn read(&self) -> VendorInventory {
        read(self.0.path())
    }
}

#[test]
fn memory_is_the_sum_of_a_gpus_own_banks() {
    for (banks, sum, device, expect) in [
        (
            vec!["heap_type 1\nsize_in_bytes 206141652992"],
            0,
            0x74a1,
            196_592,
        ),
        (
            vec![
                "heap_type 2\nsize_in_bytes 1073741824",
                "heap_type 0\nsize_in_bytes 67155521536",
            ],
            0,
            0x74a1,
            1024,
        ),
        (vec![], 1 << 30, 0x74a1, 1024),
        (vec![], 0, 0x74a1, 0),
        // Its memory is the machine's.
        (vec!["heap_type 1\nsize_in_bytes 1073741824"], 0, 0x74a0, 0),
    ] {
        let tree = KfdTree::new();
        tree.gpu(1, 0x500, &[("local_mem_size", sum), ("device_id", device)]);
        for (number, bank) in (0..).zip(&banks) {
            tree.part(1, "mem_banks", number, bank);
        }
        assert_eq!(
            tree.read().devices[0].accelerator.memory_mb,
            expect,
            "{banks:?}"
        );
    }
}

#[test]
fn the_nearest_numa_node() {
    let near = |node, weight| format!("type 2\nnode_to {node}\nweight {weight}");
    for (links, numa_file, sockets, expect) in [
        // NUMA numbers with a gap; node 4 has memory only.
        (
            vec![near(1, 20)],
            None,
            vec![(0, "ff"), (4, "00"), (8, "ff00")],
            Some(8),
        ),
        // The kernel does not tell: KFD's counting is all there is.
        (vec![near(1, 20)], None, vec![], Some(1)),
        (vec![near(0, 40), near(1, 20)], None, vec![], Some(1)),
        (vec![near(7, 20)], None, vec![], None),
        (vec![], None, vec![], None),
        // The bus knows better than the driver.
        (
            vec![near(0, 20)],
            Some("8"),
            vec![(0, "ff"), (8, "ff00")],
            Some(8),
        ),
        (
            vec![near(0, 20)],
            Some("-1"),
            vec![(0, "ff"), (8, "ff00")],
            None,
        ),
    ] {
        let tree = KfdTree::new();
        tree.cpu(0);
        tree.cpu(1);
        tree.gpu(2, 0x500, &[]);
        for (number, link) in (0..).zip(&links) {
            tree.part(2, "io_links", number, link);
        }
        for (node, map) in &sockets {
            tree.write(&format!("sys/devices/system/node/node{node}/cpumap"), map);
        }
        if let Some(text) = numa_file {
            tree.write("sys/bus/pci/devices/0000:05:00.0/numa_node", text);
        }
        assert_eq!(
            tree.read().devices[0].accelerator.numa,
            expect,
            "{links:?} {numa_file:?}"
        );
    }
    // A machine with one memory has no other.
    let tree = KfdTree::new();
    tree.cpu(0);
    tree.gpu(1, 0x500, &[]);
    tree.write("sys/bus/pci/devices/0000:05:00.0/numa_node", "-1\n");
    assert_eq!(tree.read().devices[0].accelerator.numa, Some(0));
}

#[test]
fn what_is_a_partition() {
    let unique = |id| [("unique_id", id), ("hive_id", 9)];
    let shown = |tree: &KfdTree| {
        let devices = tree.read().devices;
        let shown = |d: Accelerator| format!("{} {:?}", d.pci.unwrap(), d.partition_of);
        devices
            .into_iter()
            .map(|it| shown(it.accelerator))
            .collect::<Vec<_>>()
    };
    // An older kernel in CPX: all partitions at the card's place.
    let tree = KfdTree::new();
    tree.gpu(1, 0x500, &unique(7));
    tree.gpu(2, 0x500, &unique(7));
    let of_card = "Some(\"0000:05:00.0\")";
    let two = ["0", "1"].map(|function| format!("0000:05:00.{function} {of_card}"));
    assert_eq!(shown(&tree), two);
    // The hive is that one card.
    let levels = tree.read().levels;
    assert_eq!(spans(&levels, Level::Pcie), [(0, 1, 2)]);
    assert_eq!(spans(&levels, Level::Nvlink), []);
    // Cards that nothing links.
    let tree = KfdTree::new();
    tree.gpu(1, 0x500, &[("hive_id", 0)]);
    tree.gpu(2, 0x600, &[("hive_id", 0)]);
    assert_eq!(tree.read().levels, []);
    // The last partition of a card, and a virtual function on the bus.
    let tree = KfdTree::new();
    tree.gpu(1, 0x503, &unique(7));
    assert_eq!(shown(&tree), [format!("0000:05:00.3 {of_card}")]);
    tree.write("sys/bus/pci/devices/0000:05:00.3/class", "0x120000\n");
    assert_eq!(shown(&tree), ["0000:05:00.3 None"]);
    // Cards without serial numbers, in domains of five digits.
    let tree = KfdTree::new();
    tree.gpu(1, 0xc108, &[("domain", 0x10000)]);
    tree.gpu(2, 0xc108, &[("domain", 0x10001)]);
    let expect = ["10000:c1:01.0", "10001:c1:01.0"];
    assert_eq!(shown(&tree), expect.map(|place| format!("{place} None")));
    let ids: Vec<String> = gpus(tree.0.path()).0.iter().map(KfdGpu::id).collect();
    assert_eq!(ids, expect);
}

#[test]
fn a_node_that_cannot_be_read_is_told_and_a_model_that_is_not_known_has_its_number() {
    let tree = KfdTree::new();
    tree.write("sys/class/kfd/kfd/topology/nodes/1/properties", "");
    tree.gpu(2, 0x500, &[("device_id", 0x1234)]);
    let inventory = tree.read();
    assert_eq!(inventory.devices[0].accelerator.model, "1002:1234");
    assert_eq!(inventory.problems[0].name, "kfd-unreadable");
    assert_eq!(device_files(&gpus(tree.0.path()).0[0]), ["/dev/kfd"]);
}
