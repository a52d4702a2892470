//! Which virtual cluster is short of what it was promised, and by what.

use crate::cells::Cells;
use crate::gang::Leaf;

/// Leaves of one machine that a virtual cluster was promised and cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The virtual cluster.
    pub vc: String,
    /// The machine.
    pub node: String,
    /// The leaves' type.
    pub leaf_type: String,
    /// How many.
    pub leaves: u32,
    /// Whether the machine is cordoned; else it or its devices are sick.
    pub is_cordoned: bool,
}

/// What each virtual cluster is short of. A quota cell on bad hardware that a good one can stand
/// in for is exchanged when it is needed, and does not count.
pub fn shortfalls(cells: &Cells) -> Vec<Shortfall> {
    let mut all: Vec<Shortfall> = Vec::new();
    for vc in cells.vc_names() {
        for leaf in cells.short_leaves(vc) {
            add(&mut all, cells, vc, leaf);
        }
    }
    all
}

fn add(all: &mut Vec<Shortfall>, cells: &Cells, vc: &str, leaf: Leaf) {
    let (node, leaf_type) = (cells.address(leaf).0, cells.leaf_type(leaf));
    let same = |known: &&mut Shortfall| {
        known.vc == vc && known.node == node && known.leaf_type == leaf_type
    };
    match all.iter_mut().find(same) {
        Some(known) => known.leaves += 1,
        None => all.push(Shortfall {
            vc: vc.to_owned(),
            node: node.to_owned(),
            leaf_type: leaf_type.to_owned(),
            leaves: 1,
            is_cordoned: cells.is_cordoned(leaf),
        }),
    }
}
