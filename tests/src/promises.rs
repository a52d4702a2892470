//! Descriptions that promise whole machines, as they were found, to virtual clusters.

use anyhow::{Context as _, Result};

use crate::net::BareNode;

/// The type of the machines: all of a [`Site`](crate::site::Site) are equal.
///
/// # Errors
/// When the node does not say it.
pub fn machine(node: &BareNode) -> Result<String> {
    let found = node.prints(&["vc", "export"])?;
    let line = found.lines().find(|line| line.contains(": V100-NODE-8"));
    let machine = line.and_then(|line| line.split(' ').next_back());
    Ok(machine.context(found.clone())?.to_owned())
}

/// A promise of so many machines of this type to each.
pub fn promises(machine: &str, vcs: &[(&str, u32)]) -> String {
    let promise = |(name, count): &(&str, u32)| {
        format!(
            "  {name}:\n    virtualCells:\n    - {{cellType: {machine}, cellNumber: {count}}}\n    \
             - {{cellType: CPU-NODE, cellNumber: {count}}}\n"
        )
    };
    let all: String = vcs.iter().map(promise).collect();
    format!("# by hand\nvirtualClusters:\n{all}")
}
