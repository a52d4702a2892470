//! A cluster as its administrator describes it: types of cells, physical trees, virtual clusters.
//!
//! Plain data, filled by [`ClusterSpec::from_hived_yaml`], by a simulator or, with
//! [`ClusterSpec::of_nodes`], by hardware discovery. Whoever builds cells from it checks that it
//! is consistent; this module only says what can be seen in the text.

mod discovered;
mod hived;
mod hived_text;
mod infer;
mod level;
mod levels;
mod problem;
mod sku;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::id::VcName;

use discovered::PLAIN_NODE;
pub use discovered::{
    ABSENT, CPU_LEAF_FIRST, CPU_LEAVES, Discovered, EVERYTHING, NODE_DEVICES_MAX, PLAIN_LEAF,
    kind_of_leaf,
};
pub use level::{Level, UnknownLevel};
pub use problem::SpecProblem;
pub use sku::{Sku, Unserved};

/// Most devices of a cluster that is accepted.
pub const LEAVES_MAX: u32 = 1 << 22;
/// Most levels of one tree, leaf and top counted.
pub const LEVELS_MAX: usize = 32;

/// A whole cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterSpec {
    /// Every type that has children. A name that is only ever a child is a leaf type: a device.
    pub cell_types: BTreeMap<String, CellType>,
    /// What one device of a leaf type brings along, where that is stated.
    pub sku_types: BTreeMap<String, Sku>,
    /// The top cells. All those of one type form one chain.
    pub cells: Vec<CellSpec>,
    /// Who is promised what.
    pub virtual_clusters: BTreeMap<VcName, VcSpec>,
}

/// What a cell of a type consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellType {
    /// The type of every child.
    pub child: String,
    /// How many children, at least 1.
    pub count: u32,
    /// Whether such a cell is one machine. Exactly one type on a path from top to leaf is.
    pub node_level: bool,
    /// What it is to those who ask for nearness, if anything.
    pub level: Option<Level>,
    /// Of a machine: levels whose groups differ in size, so that they are no cells. Who asks for
    /// nearness gets devices of one group.
    pub uneven: Vec<UnevenLevel>,
}

/// A level of a machine whose groups differ in size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnevenLevel {
    /// What the devices of a group have in common.
    pub level: Level,
    /// Devices of each group. The machine's devices are in this order: the first group has the
    /// first of them, and the sum is all of them. A device near to no other is a group.
    pub sizes: Vec<u32>,
}

/// A physical cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellSpec {
    /// Its type.
    pub cell_type: String,
    /// Its name below its parent: a machine's name, a leaf's device index.
    pub address: String,
    /// The name under which a virtual cluster owns this very cell.
    pub pinned: Option<String>,
    /// Its children in order. A machine without any has the devices 0, 1, 2 and so on.
    pub children: Vec<CellSpec>,
}

/// What a virtual cluster is promised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcSpec {
    /// Cells of a type, any of them.
    pub quota: Vec<QuotaSpec>,
    /// Very particular cells, by the name they are pinned under.
    pub pinned: Vec<String>,
}

/// A number of cells of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaSpec {
    /// Types from the top of the chain down to the promised one.
    pub path: Vec<String>,
    /// How many.
    pub count: u32,
}

impl ClusterSpec {
    /// Reads HiveD's configuration, with everything it may leave out filled in as HiveD does.
    ///
    /// # Errors
    /// Everything that is wrong, each with the path of the field.
    pub fn from_hived_yaml(text: &str) -> Result<Self, Vec<SpecProblem>> {
        hived::read(text)
    }

    /// The types from `top` down to its leaf.
    ///
    /// # Errors
    /// A sentence if the types run in a circle or there are too many of them.
    pub fn path_down(&self, top: &str) -> Result<Vec<&str>, String> {
        let mut path: Vec<&str> = Vec::new();
        let mut next = self.cell_types.get_key_value(top).map(|(name, _)| &**name);
        while let Some(name) = next {
            if path.contains(&name) {
                return Err(format!("cell type {name} contains itself"));
            }
            if path.len() >= LEVELS_MAX {
                return Err(format!("more than {LEVELS_MAX} levels below {top}"));
            }
            path.push(name);
            next = self.cell_types.get(name).map(|kind| &*kind.child);
        }
        if path.is_empty() {
            return Err(format!("cell type {top} is not among the cellTypes"));
        }
        Ok(path)
    }
}
