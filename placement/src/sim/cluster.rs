//! Equal machines in one virtual cluster.

use muster_model::cluster_spec::{CellSpec, CellType, ClusterSpec, Level, QuotaSpec, VcSpec};

use super::{GPUS_PER_NODE, NODES_MAX, ReplayError};
use crate::cells::{Bins, Cells};

/// The name of the virtual cluster.
pub(super) const VC: &str = "trace";

pub(super) fn cells(nodes: u32) -> Result<Cells, ReplayError> {
    if !(1..=NODES_MAX).contains(&nodes) {
        return Err(ReplayError::Nodes(nodes));
    }
    let refused = |problem: String| ReplayError::Refused(problem);
    let mut spec = ClusterSpec::default();
    let kind = CellType {
        child: "GPU".to_owned(),
        count: GPUS_PER_NODE,
        node_level: true,
        level: Some(Level::Node),
        uneven: Vec::new(),
    };
    spec.cell_types.insert("NODE".to_owned(), kind);
    spec.cells = (0..nodes).map(node).collect();
    let quota = QuotaSpec {
        path: vec!["NODE".to_owned()],
        count: nodes,
    };
    let vc = VcSpec {
        quota: vec![quota],
        pinned: Vec::new(),
    };
    let name = VC.parse().map_err(|_| refused(format!("the name {VC}")))?;
    spec.virtual_clusters.insert(name, vc);
    Cells::new(&spec, Bins::default()).map_err(|problems| refused(format!("{problems:?}")))
}

fn node(number: u32) -> CellSpec {
    CellSpec {
        cell_type: "NODE".to_owned(),
        address: format!("node{number}"),
        pinned: None,
        children: Vec::new(),
    }
}
