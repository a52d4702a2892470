//! Captures of real machines. What each of them has is known from the machine, not from here.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::*;

const UNREAD: &[&str] = &[
    "cache",
    "cpufreq",
    "cpuidle",
    "cpuset",
    "power",
    "microcode",
    "thermal_throttle",
    "usb*",
    "host[0-9]*",
    "ata[0-9]*",
    "net",
    "block",
    "virtual",
    "PNP*",
    "memory[0-9]*",
];

/// A capture, unpacked.
pub(super) struct Capture {
    dir: tempfile::TempDir,
    pub(super) root: PathBuf,
}

impl Capture {
    pub(super) fn unpack(archive: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Most files of a tree are below these, and no reader looks at them.
        let unread = UNREAD.iter().map(|name| format!("--exclude={name}"));
        let unpacked = Command::new("tar")
            .args(unread)
            .arg("-xf")
            .arg(file(archive))
            .arg("-C")
            .arg(dir.path())
            .status();
        assert!(unpacked.unwrap().success(), "{archive}");
        let mut root = dir.path().to_owned();
        while !root.join("sys").is_dir() {
            let mut entries = fs::read_dir(&root).unwrap();
            root = entries.next().unwrap().unwrap().path();
        }
        Self { dir, root }
    }

    #[track_caller]
    fn check(&self, expect: &str) {
        assert!(self.dir.path().is_dir());
        assert_eq!(text(&read(&of_root(&self.root))), expect);
    }
}

pub(super) fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/captures")
        .join(path)
}

#[track_caller]
fn check(archive: &str, expect: &str) {
    Capture::unpack(archive).check(expect);
}

#[test]
fn arm_with_four_nodes() {
    check(
        "cpu-only-arm-4-numa/root.tar.bz2",
        "\
cpus 128 cores 128 memory 514678
node 0: 32 0-31, 128645
node 1: 32 32-63, 129021
node 2: 32 64-95, 129021
node 3: 32 96-127, 127990
",
    );
}

#[test]
fn eight_nodes_that_list_the_same_cpus_are_one() {
    check(
        "cpu-only-claims-8-numa-has-1/root.tar.bz2",
        "\
cpus 8 cores 8 memory 15949
node 0: 8 0-7, 15949
",
    );
}

#[test]
fn memory_without_cpus_and_cpus_without_memory() {
    check(
        "cpu-only-memory-only-and-cpu-only-nodes/root.tar.bz2",
        "\
cpus 8 cores 8 memory 1905609
node 0: 2 0-1, 0
node 1: 2 2-3, 0
node 2: 2 4-5, 0
node 3: 2 6-7, 0
node 4: 0 -, 0
node 5: 0 -, 95163
node 6: 0 -, 96767
node 7: 0 -, 759808
node 8: 0 -, 95255
node 9: 0 -, 96729
node 10: 0 -, 761856
",
    );
}

/// The list of CPUs of its node is of before CPUs were taken offline; the map is right. Of the
/// memory only that of the node which is online is there.
#[test]
fn offline_cpus_and_an_offline_node() {
    check(
        "cpu-only-offline-cpus-r630/root.tar.bz2",
        "\
cpus 17 cores 17 memory 65536
node 1: 8 5,7,9,11,13,15,17,19, 65536
",
    );
}

/// The sum of its nodes is more than the machine's memory. Every NUMA number of a device is -1.
#[test]
fn nodes_that_sum_up_to_more_than_there_is() {
    check(
        "r910-numa-unknown/root.tar.bz2",
        "\
cpus 40 cores 40 memory 517019
node 0: 10 0,4,8,12,16,20,24,28,32,36, 131058
node 1: 10 1,5,9,13,17,21,25,29,33,37, 131072
node 2: 10 2,6,10,14,18,22,26,30,34,38, 131072
node 3: 10 3,7,11,15,19,23,27,31,35,39, 131072
",
    );
}

/// Its graphics are those of the virtual machine.
#[test]
fn a_virtual_machine_with_a_long_pci_domain() {
    let capture = Capture::unpack("vm-32bit-pci-domain/root.tar.bz2");
    capture.check("cpus 2 cores 2 memory 2004\nnode 0: 2 0-1, 2004\n");
    let functions = pci::functions(&capture.root, |_, _| true);
    let addresses = functions.iter().map(|it| it.address.to_string());
    let long: Vec<String> = addresses.filter(|it| it.len() > 12).collect();
    assert_eq!(long, ["10000:00:00.0", "10000:00:04.0"]);
}

/// 97,445,600 kB less 4,096 huge pages of 2 MiB.
#[test]
fn vector_engines_behind_two_switches() {
    let mut expect = "\
cpus 32 cores 16 memory 86969
node 0: 16 0-7,16-23, 46802
node 1: 16 8-15,24-31, 48359
"
    .to_owned();
    for bus in ["1b", "1c", "1d", "1e", "3d", "3f", "40", "41"] {
        let model = "SX-Aurora TSUBASA Vector Engine 1.0";
        let _ = writeln!(expect, "vector nec 0000:{bus}:00.0 numa 0, 49152: {model}");
    }
    expect.push_str("pcie 0,1,2,3 4,5,6,7\n");
    check("nec-ve-8-2xEDR-hugepages/root.tar.bz2", &expect);
}

/// The capture has no PCI files, so its GPU is known to the driver only.
#[test]
fn a_machine_with_cores_of_two_kinds() {
    check(
        "nvidia-dgx-spark-gb10/root.tar.bz2",
        "\
cpus 20 cores 20 memory 122566
node 0: 20 0-19, 122566
",
    );
}

/// Two NUMA nodes of which the tree tells no more than that they are there.
const TWO_NODES: &str = "\
cpus 0 cores 0 memory 0
node 0: 0 -, 0
node 1: 0 -, 0
";

/// Both levels of its switches; its NVSwitches are no GPUs, but link them all.
#[test]
fn dgx_2() {
    let mut expect = TWO_NODES.to_owned();
    let first = ["34", "36", "39", "3b", "57", "59", "5c", "5e"].map(|bus| (bus, 0));
    let second = ["b7", "b9", "bc", "be", "e0", "e2", "e5", "e7"].map(|bus| (bus, 1));
    for (bus, node) in first.into_iter().chain(second) {
        let model = "Tesla V100-SXM3-32GB";
        let _ = writeln!(
            expect,
            "gpu nvidia 0000:{bus}:00.0 numa {node}, 32768: {model}"
        );
    }
    expect.push_str(
        "\
nvlink 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
numa 0,1,2,3,4,5,6,7 8,9,10,11,12,13,14,15
pcie 0,1,2,3 4,5,6,7 8,9,10,11 12,13,14,15
pcie 0,1 2,3 4,5 6,7 8,9 10,11 12,13 14,15
",
    );
    check("nvidia-dgx2-16xV100/sysfs-derived.tar.xz", &expect);
}

/// The machine's own files show no switch; the file that comes with its image does.
#[test]
fn p4d_without_and_with_its_topology_file() {
    let capture = Capture::unpack("nvidia-aws-p4d-8xA100/sysfs-derived.tar.xz");
    let mut expect = TWO_NODES.to_owned();
    for (bus, node) in [("10", 0), ("20", 0), ("90", 1), ("a0", 1)] {
        for device in ["1c", "1d"] {
            let address = format!("0000:{bus}:{device}.0");
            let _ = writeln!(
                expect,
                "gpu nvidia {address} numa {node}, 40960: A100-SXM4-40GB"
            );
        }
    }
    expect.push_str("numa 0,1,2,3 4,5,6,7\n");
    capture.check(&expect);
    expect.push_str("pcie 0,1 2,3 4,5 6,7\n");
    let topology = file("nvidia-aws-p4d-8xA100/nccl-topo.xml");
    let product = "sys/class/dmi/id/product_name";
    for path in [
        "run/nvidia-topologyd/virtualTopology.xml",
        "var/run/nvidia-topologyd/virtualTopology.xml",
        "opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml/p4d-24xl-topo.xml",
        "opt/image/any.xml",
    ] {
        let path = capture.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(&topology, &path).unwrap();
        fs::create_dir_all(capture.root.join("sys/class/dmi/id")).unwrap();
        fs::write(capture.root.join(product), "p4d.24xlarge\n").unwrap();
        if path.ends_with("any.xml") {
            fs::create_dir_all(capture.root.join("etc")).unwrap();
            let setting = "NCCL_DEBUG=WARN\nNCCL_TOPO_FILE = /opt/image/any.xml\n";
            fs::write(capture.root.join("etc/nccl.conf"), setting).unwrap();
        }
        capture.check(&expect);
        fs::remove_file(path).unwrap();
    }
    fs::remove_file(capture.root.join("etc/nccl.conf")).unwrap();
    let named = capture.root.join("named.xml");
    fs::copy(&topology, &named).unwrap();
    let config = InventoryConfig {
        nccl_topology: Some("/named.xml".into()),
        ..of_root(&capture.root)
    };
    assert_eq!(text(&read(&config)), expect);
    // The name is of this machine; the tree of another one need not have the file.
    fs::remove_file(named).unwrap();
    assert_eq!(read(&config).problems, []);
}

/// Each GPU has a switch of its own, which groups nothing. Only NCCL's file tells the links.
#[test]
fn mi300x_without_and_with_its_topology_file() {
    let capture = Capture::unpack("amd-mi300x-8-spx/sysfs-derived.tar.xz");
    let mut devices = String::new();
    let first = ["0c", "15", "1e", "69"].map(|bus| (bus, 0));
    let second = ["9f", "af", "bf", "df"].map(|bus| (bus, 1));
    for (bus, node) in first.into_iter().chain(second) {
        let _ = writeln!(
            devices,
            "gpu amd 0000:{bus}:00.0 numa {node}, 196608: Instinct MI300X"
        );
    }
    let numa = "numa 0,1,2,3 4,5,6,7\n";
    capture.check(&format!("{TWO_NODES}{devices}{numa}"));
    fs::create_dir_all(capture.root.join("etc")).unwrap();
    fs::write(
        capture.root.join("etc/nccl.conf"),
        "NCCL_TOPO_FILE=/topo.xml",
    )
    .unwrap();
    fs::copy(
        file("amd-mi300x-8-spx/nccl-topo.xml"),
        capture.root.join("topo.xml"),
    )
    .unwrap();
    let links = "nvlink 0,1,2,3,4,5,6,7\n";
    capture.check(&format!("{TWO_NODES}{devices}{links}{numa}"));
}

/// Groups of unequal size. The graphics of the management controller and the InfiniBand card of
/// an unusual class are no devices.
#[test]
fn sl390s_with_one_and_two() {
    let expect = format!(
        "{TWO_NODES}\
gpu nvidia 0000:06:00.0 numa 0, 0: Tesla M2070
gpu nvidia 0000:11:00.0 numa 1, 0: Tesla M2070
gpu nvidia 0000:14:00.0 numa 1, 0: Tesla M2070
numa 0 1,2
"
    );
    check(
        "nvidia-uneven-and-mixed/hwloc-24em64t-2n6c2t-pci-sysfs-derived.tar.xz",
        &expect,
    );
}

/// Beside one of its Teslas the capture has a card of AMD in the same slot.
#[test]
fn x9drg_with_two_vendors() {
    let expect = format!(
        "{TWO_NODES}\
gpu nvidia 0000:03:00.0 numa 0, 0: Tesla M2075
gpu nvidia 0000:83:00.0 numa 1, 0: Tesla M2075
gpu nvidia 0000:84:00.0 numa 1, 0: Tesla M2075
gpu amd 0000:84:00.1 numa 1, 0: Radeon HD 7970
numa 0 1,2 3
"
    );
    check(
        "nvidia-uneven-and-mixed/hwloc-32em64t-2n8c2t-pci-normalio-sysfs-derived.tar.xz",
        &expect,
    );
}
