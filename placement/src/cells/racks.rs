//! Which machines stand in one rack, as they were told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::cluster_spec::Level;

use super::Cells;
use crate::gang::Leaf;
use crate::index::{ChainRacks, at, small};

impl Cells {
    /// The rack that a machine was told to stand in; none if it was not told.
    pub fn rack(&self, node: &str) -> Option<&str> {
        self.racks.get(node).map(String::as_str)
    }

    /// Machines stand in these racks from now on; what is not named, or has an empty name, is in a rack of its own.
    /// Racks of the description win: a chain that has cells of that level does not look here.
    pub(super) fn stand(&mut self, racks: BTreeMap<String, String>) {
        self.racks = racks;
        self.racks.retain(|_, rack| !rack.is_empty());
        let names: BTreeSet<&String> = self.racks.values().collect();
        let numbers: BTreeMap<&String, u32> = names.into_iter().zip(0..).collect();
        let own = small(numbers.len());
        let rack = |node: usize| {
            let told = self.racks.get(&self.nodes.name[node]);
            told.map_or(own + self.nodes.machine[node], |rack| numbers[rack])
        };
        let of_chain = |chain: &super::Chain| {
            let has_cells = chain.shape.levels.contains(&Some(Level::Rack));
            let nodes =
                at(chain.node_base)..at(chain.node_base + chain.shape.count(chain.shape.node));
            let is_told = || {
                nodes
                    .clone()
                    .any(|node| self.racks.contains_key(&self.nodes.name[node]))
            };
            (!has_cells && is_told())
                .then(|| Arc::new(ChainRacks::new(nodes.clone().map(rack).collect())))
        };
        let racks: Vec<Option<Arc<ChainRacks>>> = self.chains.iter().map(of_chain).collect();
        for (chain, racks) in self.chains.iter_mut().zip(&racks) {
            chain.free.racks.clone_from(racks);
            chain.quiet.racks.clone_from(racks);
        }
        for pool in &mut self.pools {
            pool.free.racks.clone_from(&racks[pool.chain]);
            pool.claimable.racks.clone_from(&racks[pool.chain]);
        }
    }

    /// A number that leaves of one told rack share; none if the leaf's chain has no told racks.
    pub(crate) fn rack_of(&self, leaf: Leaf) -> Option<u32> {
        let (chain, local) = self.local(leaf);
        let chain = &self.chains[chain];
        let machine = chain.shape.size[chain.shape.node];
        let racks = chain.free.racks.as_ref()?;
        Some(racks.of_leaf(local, machine))
    }
}
