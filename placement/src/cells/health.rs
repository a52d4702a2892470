//! Machines and devices that fail, come back, or are spared.

use super::{BAD_DEVICE, BAD_NODE, CORDONED, Cells, CellsError};
use crate::gang::Leaf;
use crate::index::at;

impl Cells {
    pub(crate) fn node_health(&mut self, node: &str, healthy: bool) -> Result<(), CellsError> {
        self.node_fault(node, BAD_NODE, !healthy)
    }

    pub(crate) fn cordon(&mut self, node: &str, on: bool) -> Result<(), CellsError> {
        self.node_fault(node, CORDONED, on)
    }

    pub(crate) fn device_health(
        &mut self,
        node: &str,
        device: u32,
        healthy: bool,
    ) -> Result<(), CellsError> {
        let leaf = self.find_leaf(node, device);
        let leaf = leaf.ok_or_else(|| CellsError::NoSuch(format!("device {device} of {node}")))?;
        self.fault(leaf, BAD_DEVICE, !healthy);
        self.go_home_if(healthy);
        Ok(())
    }

    fn node_fault(&mut self, name: &str, kind: u8, on: bool) -> Result<(), CellsError> {
        let nodes = self.nodes.by_name.get(name).cloned();
        for node in nodes.ok_or_else(|| CellsError::NoSuch(format!("machine {name}")))? {
            for leaf in self.leaves_of_node(node).1 {
                self.fault(leaf, kind, on);
            }
        }
        self.go_home_if(!on);
        Ok(())
    }

    /// Where nothing runs bad hardware is all that may have kept quota cells from where they were
    /// bound first.
    fn go_home_if(&mut self, healed: bool) {
        if healed && self.gangs.all().next().is_none() {
            self.go_home(&[]);
        }
    }

    pub(crate) fn fault(&mut self, leaf: Leaf, kind: u8, on: bool) {
        let fault = &mut self.leaves.fault[at(leaf)];
        let was = *fault != 0;
        *fault = if on { *fault | kind } else { *fault & !kind };
        let is = *fault != 0;
        if was == is {
            return;
        }
        self.touch(leaf);
        let chain = self.chain_of(leaf);
        let quota = self.quotas.get_mut(at(self.leaves.quota[at(leaf)]));
        let counts = [
            Some(&mut self.chains[chain].bad),
            quota.map(|quota| &mut quota.bad),
        ];
        for count in counts.into_iter().flatten() {
            *count = if is { *count + 1 } else { *count - 1 };
        }
    }

    /// Whether a machine or a device of a cell is unhealthy; a cordon is no illness.
    pub(crate) fn is_bad(&self, chain: usize, level: usize, cell: u32) -> bool {
        let sick = |leaf: Leaf| self.leaves.fault[at(leaf)] & !CORDONED != 0;
        self.leaves_of(chain, level, cell).any(sick)
    }
}
