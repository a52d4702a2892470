//! Rows of 8 racks of 8 machines of 8 devices, all of it promised to three clusters.

use muster_model::cluster_spec::{CellSpec, CellType, ClusterSpec, Level, QuotaSpec, VcSpec};

/// Devices of a machine, a rack, a row.
pub(super) const NODE: u32 = 8;
pub(super) const RACK: u32 = 64;
pub(super) const ROW: u32 = 512;

const TYPES: [(&str, &str, u32, Option<Level>); 5] = [
    ("ROW", "RACK", 8, None),
    ("RACK", "NODE", 8, Some(Level::Rack)),
    ("NODE", "GPU-SOCKET", 2, Some(Level::Node)),
    ("GPU-SOCKET", "GPU-PAIR", 2, Some(Level::Numa)),
    ("GPU-PAIR", "GPU", 2, Some(Level::Pcie)),
];

/// The promises: rows of A, racks of B, machines of C.
pub(super) fn quota(gpus: u32) -> [u32; 3] {
    let rows = gpus / ROW;
    let a = (rows / 2).max(1);
    let racks = (rows - a) * (ROW / RACK);
    let b = racks / 2;
    [a, b, (racks - b) * (RACK / NODE)]
}

/// The benchmark's cluster; none unless the devices fill rows.
pub fn spec(gpus: u32) -> Option<ClusterSpec> {
    if gpus == 0 || !gpus.is_multiple_of(ROW) {
        return None;
    }
    let mut spec = ClusterSpec::default();
    for (name, child, count, level) in TYPES {
        let kind = CellType {
            child: child.to_owned(),
            count,
            node_level: name == "NODE",
            level,
            uneven: Vec::new(),
        };
        spec.cell_types.insert(name.to_owned(), kind);
    }
    spec.cells = (0..gpus / ROW).map(|row| cell(0, row)).collect();
    for (number, count) in quota(gpus).into_iter().enumerate() {
        let path = TYPES[..=number]
            .iter()
            .map(|kind| kind.0.to_owned())
            .collect();
        let vc = VcSpec {
            quota: vec![QuotaSpec { path, count }],
            pinned: Vec::new(),
        };
        let name = ["A", "B", "C"][number].parse().ok()?;
        spec.virtual_clusters.insert(name, vc);
    }
    Some(spec)
}

fn cell(depth: usize, number: u32) -> CellSpec {
    let (name, _, count, _) = TYPES[depth];
    let children = if name == "NODE" { 0..0 } else { 0..count };
    CellSpec {
        cell_type: name.to_owned(),
        address: format!("{}{number}", name.to_ascii_lowercase()),
        pinned: None,
        children: children
            .map(|child| cell(depth + 1, number * count + child))
            .collect(),
    }
}
