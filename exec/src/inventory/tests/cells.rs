//! The cells of each captured machine, beside a file that was reviewed: `exec/tests/cells`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use muster_model::cluster_spec::{CellSpec, ClusterSpec, PLAIN_LEAF};
use muster_model::id::NodeId;
use muster_model::inventory::Inventory;
use muster_model::node::Capacity;

use super::captures::Capture;
use super::*;

/// Captures of machines: the archive, and NCCL's topology file if its image has one.
const MACHINES: &[(&str, &str, Option<&str>)] = &[
    ("amd-mi210-8-two-hives", "kfd.tar.xz", None),
    ("amd-mi300x-8-cpx", "kfd.tar.xz", None),
    (
        "amd-mi300x-8-spx",
        "sysfs-derived.tar.xz",
        Some("nccl-topo.xml"),
    ),
    ("amd-vega-old-kernel", "kfd.tar.xz", None),
    ("cpu-only-arm-4-numa", "root.tar.bz2", None),
    ("cpu-only-claims-8-numa-has-1", "root.tar.bz2", None),
    (
        "cpu-only-memory-only-and-cpu-only-nodes",
        "root.tar.bz2",
        None,
    ),
    ("cpu-only-offline-cpus-r630", "root.tar.bz2", None),
    ("ib-h100-8xNDR-1xRoCE", "sysfs.tar.xz", None),
    ("ib-states", "sysfs-assembled.tar.xz", None),
    ("nec-ve-8-2xEDR-hugepages", "root.tar.bz2", None),
    (
        "nvidia-aws-p4d-8xA100",
        "sysfs-derived.tar.xz",
        Some("nccl-topo.xml"),
    ),
    ("nvidia-dgx-spark-gb10", "root.tar.bz2", None),
    ("nvidia-dgx2-16xV100", "sysfs-derived.tar.xz", None),
    (
        "nvidia-uneven-and-mixed",
        "hwloc-24em64t-2n6c2t-pci-sysfs-derived.tar.xz",
        None,
    ),
    (
        "nvidia-uneven-and-mixed",
        "hwloc-32em64t-2n8c2t-pci-normalio-sysfs-derived.tar.xz",
        None,
    ),
    ("r910-numa-unknown", "root.tar.bz2", None),
    ("vm-32bit-pci-domain", "root.tar.bz2", None),
];

/// Set to accept what is found.
const ACCEPT: &str = "MUSTER_ACCEPT_CELLS";

#[test]
fn cells_of_captures_are_as_reviewed() {
    let mut wrong = String::new();
    for (capture, archive, topology) in MACHINES {
        let text = cells(&inventory_of(capture, archive, *topology));
        let name = match archive.split_once("-sysfs-derived") {
            Some((machine, _)) => format!("{capture}-{machine}"),
            None => (*capture).to_owned(),
        };
        let golden = golden_file(&name);
        if std::env::var_os(ACCEPT).is_some() {
            fs::write(&golden, &text).unwrap();
        }
        let expect = fs::read_to_string(&golden).unwrap_or_default();
        if expect != text {
            let _ = writeln!(wrong, "{}:\n{}", golden.display(), diff(&expect, &text));
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong}\nReview the lines. To accept them run this test with {ACCEPT}=1."
    );
}

fn golden_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cells")
        .join(format!("{name}.txt"))
}

fn inventory_of(capture: &str, archive: &str, topology: Option<&str>) -> Inventory {
    let unpacked = Capture::unpack(&format!("{capture}/{archive}"));
    let named = topology.map(|file| {
        let file = super::captures::file(&format!("{capture}/{file}"));
        fs::copy(file, unpacked.root.join("nccl-topo.xml")).unwrap();
        PathBuf::from("/nccl-topo.xml")
    });
    read(&InventoryConfig {
        nccl_topology: named,
        ..of_root(&unpacked.root)
    })
}

/// Every cell of the machine in a line, and the groups that are no cells.
fn cells(inventory: &Inventory) -> String {
    let id: NodeId = "machine".parse().unwrap();
    let capacity = inventory.to_capacity();
    let found = ClusterSpec::of_nodes([(&id, &capacity)].into_iter(), &BTreeMap::new());
    assert_eq!(found.left_out, [] as [String; 0]);
    let mut text = String::new();
    for cell in &found.spec.cells {
        write_cell(&mut text, 0, cell, &capacity);
        for level in &found.spec.cell_types[&cell.cell_type].uneven {
            let sizes: Vec<String> = level.sizes.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "  groups of {}: {}", level.level, sizes.join(" "));
        }
    }
    text
}

fn write_cell(text: &mut String, depth: usize, cell: &CellSpec, capacity: &Capacity) {
    let indent = "  ".repeat(depth);
    match &*cell.children {
        [] => {
            let mut devices = capacity.devices.iter();
            let device = devices
                .find(|it| it.index.to_string() == cell.address)
                .unwrap();
            let (index, kind) = (device.index, device.kind.as_str());
            let _ = writeln!(text, "{indent}{index} {kind} {}", device.model);
        }
        [first, ..] if first.cell_type == PLAIN_LEAF => {
            let count = cell.children.len();
            let _ = writeln!(text, "{indent}{}: {count} places", cell.cell_type);
        }
        children => {
            let _ = writeln!(text, "{indent}{} {}", cell.cell_type, cell.address);
            for child in children {
                write_cell(text, depth + 1, child, capacity);
            }
        }
    }
}

/// Lines that are in one of two texts only.
fn diff(expect: &str, found: &str) -> String {
    let is_in = |text: &str, line: &str| text.lines().any(|other| other == line);
    let gone = expect.lines().filter(|line| !is_in(found, line));
    let new = found.lines().filter(|line| !is_in(expect, line));
    let gone = gone.map(|line| format!("- {line}\n"));
    let new = new.map(|line| format!("+ {line}\n"));
    gone.chain(new).collect()
}
