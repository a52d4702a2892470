//! Trees of machines whose captures may not be taken over, made of the facts in them.

use super::tree::{Tree, function};
use super::*;

const GIB: u64 = 1 << 20;

/// Two POWER9 with a switch each, two GPUs and a dual-port HCA below; graphics of the BMC.
fn ac922() -> Tree {
    let tree = Tree::new();
    let low = "pci0004:00/0004:00:00.0/0004:01:00.0";
    let high = "pci0035:00/0035:00:00.0/0035:01:00.0";
    for (path, numa) in [
        (format!("{low}/0004:02:0a.0/0004:04:00.0"), 0),
        (format!("{low}/0004:02:0b.0/0004:05:00.0"), 0),
        (format!("{high}/0035:02:04.0/0035:03:00.0"), 8),
        (format!("{high}/0035:02:05.0/0035:04:00.0"), 8),
    ] {
        tree.pci(&function(&path, 0x0302, "10de:1db1", numa));
    }
    let hca = "pci0003:00/0003:00:00.0/0003:01:00";
    for port in [".0", ".1"] {
        tree.pci(&function(&format!("{hca}{port}"), 0x0207, "15b3:1019", 0));
    }
    let graphics = "pci0002:00/0002:00:00.0/0002:01:00.0/0002:02:00.0";
    tree.pci(&function(graphics, 0x0300, "1a03:2000", 0));
    tree
}

const V100S: &str = "\
gpu nvidia 0004:04:00.0 numa 0, 16384: Tesla V100-SXM2-16GB
gpu nvidia 0004:05:00.0 numa 0, 16384: Tesla V100-SXM2-16GB
gpu nvidia 0035:03:00.0 numa 8, 16384: Tesla V100-SXM2-16GB
gpu nvidia 0035:04:00.0 numa 8, 16384: Tesla V100-SXM2-16GB
numa 0,1 2,3
pcie 0,1 2,3
";

/// CPUs 8 to 87 and 96 to 175, four threads a core.
#[test]
fn lassen() {
    let tree = ac922();
    tree.file("sys/devices/system/cpu/online", "8-87,96-175\n")
        .file("proc/meminfo", "MemTotal:       267870848 kB\n")
        .file("sys/devices/system/node/has_memory", "0,8\n")
        .node(0, "00ffffff,ffffffff,ffffff00", 133_920_000, "10 40")
        .node(
            8,
            "ffff,ffffffff,ffffffff,00000000,00000000,00000000",
            133_950_848,
            "40 10",
        );
    for cpu in (8..88).chain(96..176) {
        let first = cpu / 4 * 4;
        let dir = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        tree.file(
            &format!("{dir}/thread_siblings_list"),
            &format!("{first}-{}", first + 3),
        );
    }
    let host = "\
cpus 160 cores 40 memory 261592
node 0: 80 8-87, 130781
node 8: 80 96-175, 130811
";
    assert_eq!(text(&tree.read()), format!("{host}{V100S}"));
}

/// The same machine with the memory of its GPUs as NUMA nodes.
fn sierra() -> Tree {
    let tree = ac922();
    tree.file("sys/devices/system/cpu/online", "0-175\n")
        .file(
            "proc/meminfo",
            &format!("MemTotal: {} kB\n", 256 * GIB + 4 * 16_515_072),
        )
        .file("sys/devices/system/node/online", "0,8,252-255\n")
        .file("sys/devices/system/node/has_memory", "0,8,252-255\n")
        .node(
            0,
            "00ffffff,ffffffff,ffffffff",
            128 * GIB,
            "10 40 80 80 80 80",
        )
        .node(
            8,
            "ffff,ffffffff,ffffffff,ff000000,00000000,00000000",
            128 * GIB,
            "40 10 80 80 80 80",
        );
    for node in 252..256 {
        tree.node(node, "0", 16_515_072, "80 80 80 80 80 80");
    }
    tree
}

const SIERRA: &str = "\
cpus 176 cores 176 memory 262144
node 0: 88 0-87, 131072
node 8: 88 88-175, 131072
";

#[test]
fn memory_of_gpus_is_none_of_the_host_by_the_driver_or_by_distance() {
    let by_distance = sierra();
    by_distance.file("sys/devices/system/node/has_normal_memory", "0,8\n");
    assert_eq!(text(&by_distance.read()), format!("{SIERRA}{V100S}"));
    // The driver's word is enough, whatever the kernel says else.
    let by_driver = sierra();
    by_driver.file("sys/devices/system/node/has_normal_memory", "0,8,252-255\n");
    for (gpu, node) in [
        ("0004:04", 252),
        ("0004:05", 253),
        ("0035:03", 254),
        ("0035:04", 255),
    ] {
        let status = format!("Node:   {node}\nStatus: online\n\nRefcount: 1\n");
        by_driver.file(
            &format!("proc/driver/nvidia/gpus/{gpu}:00.0/numa_status"),
            &status,
        );
    }
    assert_eq!(text(&by_driver.read()), format!("{SIERRA}{V100S}"));
    // Normal memory that is far is the host's.
    let far = sierra();
    far.file("sys/devices/system/node/has_normal_memory", "0,8,252-255\n");
    assert_eq!(far.read().memory_mb, 262_144 + 4 * 16_128);
    // So is what the kernel made of CXL memory.
    let cxl = sierra();
    for node in 252..256 {
        cxl.file(
            &format!("sys/bus/dax/devices/dax{node}.0/target_node"),
            &format!("{node}\n"),
        );
    }
    assert_eq!(cxl.read().memory_mb, 262_144 + 4 * 16_128);
}

/// High-bandwidth memory without CPUs is the host's, and near enough to tell it from a GPU's.
#[test]
fn knights_landing() {
    let tree = Tree::new();
    tree.file("sys/devices/system/cpu/online", "0-63\n")
        .file("proc/meminfo", &format!("MemTotal: {} kB\n", 12 * GIB))
        .file("sys/devices/system/node/has_normal_memory", "0-3\n")
        .file("sys/devices/system/node/has_memory", "0-7\n")
        // Not online as memory of the system.
        .file("sys/bus/dax/devices/dax0.0/target_node", "9\n");
    for (node, map) in [
        (0, "000f000f"),
        (1, "00f000f0"),
        (2, "0f000f00"),
        (3, "f000f000"),
    ] {
        tree.node(
            node,
            &format!("{map},{map}"),
            GIB,
            "10 21 21 21 41 41 41 31",
        );
    }
    for node in 4..8 {
        tree.node(
            node,
            "00000000,00000000",
            2 * GIB,
            "41 41 41 41 10 41 41 41",
        );
    }
    let expect = "\
cpus 64 cores 64 memory 12288
node 0: 16 0-3,16-19,32-35,48-51, 1024
node 1: 16 4-7,20-23,36-39,52-55, 1024
node 2: 16 8-11,24-27,40-43,56-59, 1024
node 3: 16 12-15,28-31,44-47,60-63, 1024
node 4: 0 -, 2048
node 5: 0 -, 2048
node 6: 0 -, 2048
node 7: 0 -, 2048
";
    assert_eq!(text(&tree.read()), expect);
}

/// One socket of a workstation as four NUMA nodes, two of them without memory; a GPU of each
/// vendor.
#[test]
fn chimera() {
    let tree = Tree::new();
    tree.file("sys/devices/system/cpu/online", "0-63\n")
        .file("proc/meminfo", "MemTotal:       131947660 kB\n")
        .file("sys/devices/system/node/has_memory", "0,2\n")
        .node(0, "000000ff,000000ff", 65_939_888, "10 16 16 16")
        .node(1, "00ff0000,00ff0000", 0, "16 10 16 16")
        .node(2, "0000ff00,0000ff00", 66_007_772, "16 16 10 16")
        .node(3, "ff000000,ff000000", 0, "16 16 16 10");
    let radeon = "pci0000:40/0000:40:03.1/0000:42:00.0/0000:43:00.0/0000:44:00.0";
    tree.pci(&function(
        "pci0000:00/0000:00:03.1/0000:08:00.0",
        0x0300,
        "10de:1b81",
        0,
    ));
    // Its function for sound is none of its own, nor a device.
    tree.pci(&function(
        "pci0000:00/0000:00:03.1/0000:08:00.1",
        0x0403,
        "10de:10f0",
        0,
    ));
    tree.pci(&function(radeon, 0x0300, "1002:6863", 2));
    let expect = "\
cpus 64 cores 64 memory 128855
node 0: 16 0-7,32-39, 64394
node 1: 16 16-23,48-55, 0
node 2: 16 8-15,40-47, 64460
node 3: 16 24-31,56-63, 0
gpu nvidia 0000:08:00.0 numa 0, 0: GeForce GTX 1070
gpu amd 0000:44:00.0 numa 2, 16384: Radeon Vega Frontier Edition
";
    assert_eq!(text(&tree.read()), expect);
}

/// Eight nodes are kept for instances of its GPU, one of them is online as its memory.
#[test]
fn grace_hopper() {
    let tree = Tree::new();
    tree.file("sys/devices/system/cpu/online", "0-71\n")
        .file(
            "proc/meminfo",
            &format!("MemTotal: {} kB\n", 480 * GIB + 96 * GIB),
        )
        .file("sys/devices/system/node/has_memory", "0-1\n")
        .file("sys/devices/system/node/has_normal_memory", "0\n")
        .node(
            0,
            "ff,ffffffff,ffffffff",
            480 * GIB,
            "10 80 80 80 80 80 80 80 80",
        )
        .node(1, "0", 96 * GIB, "80 10 255 255 255 255 255 255 255");
    for node in 2..9 {
        tree.node(node, "0", 0, "80 255 255 255 255 255 255 255 255");
    }
    tree.flat(&[("0009:01:00.0", 0x0302, "10de:2342", -1)]);
    let found = tree.read();
    assert_eq!((found.cpus, found.memory_mb), (72, 480 << 10));
    let with_cpus = found.numa.iter().filter(|node| node.cpus > 0);
    assert_eq!(with_cpus.count(), 1);
    // Just one node has CPUs, so it is the GPU's, though the firmware does not say so.
    assert_eq!(found.devices[0].numa, Some(0));
}
