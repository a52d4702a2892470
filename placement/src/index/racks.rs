//! Racks that machines were told to stand in. They are of unequal size, so they are no cells: they are kept beside
//! the tree.

use std::collections::BTreeMap;

use super::{ViewFrame, at};

/// In which rack each machine of a chain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainRacks {
    /// By machine of the chain: a number that machines of one rack share, in all chains.
    of_machine: Vec<u32>,
}

impl ChainRacks {
    pub(crate) const fn new(of_machine: Vec<u32>) -> Self {
        Self { of_machine }
    }

    /// The rack of a leaf, by its number in the chain. `machine`: leaves of one.
    pub(crate) fn of_leaf(&self, leaf: u32, machine: u32) -> u32 {
        self.of_machine[at(leaf / machine)]
    }

    pub(crate) fn of_bin(&self, frame: &ViewFrame, bin: u32) -> u32 {
        self.of_leaf(bin * frame.bin_size, frame.shape.size[frame.shape.node])
    }

    /// The bins of each rack.
    pub(crate) fn bins(&self, frame: &ViewFrame) -> BTreeMap<u32, Vec<u32>> {
        let mut racks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for bin in 0..frame.bins {
            racks.entry(self.of_bin(frame, bin)).or_default().push(bin);
        }
        racks
    }

    /// Machines of the largest rack.
    pub(crate) fn largest(&self) -> u32 {
        let mut racks: BTreeMap<u32, u32> = BTreeMap::new();
        for rack in &self.of_machine {
            *racks.entry(*rack).or_default() += 1;
        }
        racks.into_values().max().unwrap_or_default()
    }
}
