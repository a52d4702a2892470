//! Cells as HiveD's configuration writes them.

use std::fmt::Write as _;

use super::discovered::PLAIN_NODE;
use super::{CellSpec, ClusterSpec};

impl ClusterSpec {
    /// The types of cells and the physical cells as HiveD's YAML, which
    /// [`ClusterSpec::from_hived_yaml`] reads. Places for tasks without devices are not in it.
    /// Groups that are no cells are comments: HiveD has none.
    pub fn to_hived_yaml(&self) -> String {
        let mut text = String::from("physicalCluster:\n  cellTypes:\n");
        for (name, kind) in self
            .cell_types
            .iter()
            .filter(|(name, _)| *name != PLAIN_NODE)
        {
            let _ = writeln!(text, "    {name}:");
            for level in &kind.uneven {
                let sizes: Vec<String> = level.sizes.iter().map(u32::to_string).collect();
                let _ = writeln!(
                    text,
                    "      # groups of {}: {}",
                    level.level,
                    sizes.join(", ")
                );
            }
            let _ = writeln!(text, "      childCellType: {}", kind.child);
            let _ = writeln!(text, "      childCellNumber: {}", kind.count);
            if kind.node_level {
                text.push_str("      isNodeLevel: true\n");
            } else if let Some(level) = kind.level {
                let _ = writeln!(text, "      level: {level}");
            }
        }
        text.push_str("  physicalCells:\n");
        for cell in self
            .cells
            .iter()
            .filter(|cell| cell.cell_type != PLAIN_NODE)
        {
            let _ = writeln!(text, "  - cellType: {}", cell.cell_type);
            write_rest(&mut text, 2, cell);
        }
        text
    }
}

/// The address and the children of a cell, whose first line begins at an indentation.
fn write_rest(text: &mut String, indent: usize, cell: &CellSpec) {
    let space = " ".repeat(indent);
    let _ = writeln!(text, "{space}  cellAddress: {:?}", cell.address);
    if !cell.children.is_empty() {
        let _ = writeln!(text, "{space}  cellChildren:");
    }
    for child in &cell.children {
        match &*child.children {
            [] => {
                let _ = writeln!(text, "{space}  - cellAddress: {:?}", child.address);
            }
            _ => {
                let _ = writeln!(text, "{space}  - cellType: {}", child.cell_type);
                write_rest(text, indent + 2, child);
            }
        }
    }
}
