//! What there is, to whom it is promised, who holds it.
//!
//! Physical cells are numbers: a chain's tree is regular, so a cell is (level, index). Every
//! quota cell of every virtual cluster is bound to one physical cell at all times, so the leaves
//! of a chain are divided among the clusters, and an unused quota cell on good hardware can
//! always be had: only opportunistic gangs can be on it. Which cell it is bound to may change by
//! a [`Swap`](crate::gang::Swap) while neither side is used by a guaranteed gang. Where
//! [`Owners`] say whose the leaves are, one may wait for leaves of its cluster: it stands on some
//! that are nobody's then, and is of no use yet.

mod adopt;
mod apply;
mod audit;
mod bind;
mod build;
mod ending;
mod error;
mod event;
mod gangs;
mod health;
mod owners;
mod promise;
mod racks;
mod reconfigure;
mod refresh;
mod shares;
mod swap;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::BTreeMap;

use crate::gang::{Gang, Leaf, Placement};
use crate::index::{LeafView, NONE, Shape, ViewFrame, at};

pub use error::CellsError;
pub use event::CellEvent;
pub use gangs::GangState;
pub(crate) use gangs::{AllocationMode, PlacedGang, PlacedGangs};
pub use owners::{Owners, Wants};
pub use promise::VcCell;
pub use reconfigure::ReconfigureEffect;
pub(crate) use shares::{ChainStock, MachineShares, Sum};

/// How pods may use quota cells smaller than a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bins {
    /// A pod may lie across several of its cluster's quota cells on one machine.
    #[default]
    Merged,
    /// A pod lies within one quota cell, as HiveD has it.
    PerQuotaCell,
}

/// The physical cells of a cluster and all that is promised, bound and held of them.
#[derive(Clone, Debug)]
pub struct Cells {
    pub(crate) bins: Bins,
    /// Who has which leaves; none: quota cells are bound here.
    pub(crate) owners: Option<Owners>,
    pub(crate) chains: Vec<Chain>,
    pub(crate) leaves: Leaves,
    pub(crate) nodes: NodeTable,
    pub(crate) quotas: Vec<Quota>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) vcs: BTreeMap<String, Vc>,
    pub(crate) gangs: PlacedGangs,
    pub(crate) dirty: Dirty,
    /// The racks that machines were told to stand in, by their names.
    pub(crate) racks: BTreeMap<String, String>,
}

/// All top cells of one type.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    /// Its leaves are no devices but plain shares of machines.
    pub(crate) is_plain: bool,
    /// Whether members that name no type may have its leaves: they are GPUs.
    pub(crate) is_for_any: bool,
    pub(crate) shape: Shape,
    /// Its first leaf and its first machine in the cluster's numbering.
    pub(crate) leaf_base: u32,
    pub(crate) node_base: u32,
    /// Free leaves on machines that no guaranteed gang uses.
    pub(crate) quiet: LeafView,
    /// All free leaves.
    pub(crate) free: LeafView,
    /// Unusable leaves.
    pub(crate) bad: u32,
    /// The largest level of which a cell is promised and no place is left for it.
    pub(crate) unplaced: Option<usize>,
    /// Leaves that guaranteed gangs hold or claim.
    pub(crate) guaranteed: u32,
    /// What its machines have beside leaf cells.
    pub(crate) stock: ChainStock,
    /// Quota cells that are not where they were bound first.
    pub(crate) away: std::collections::BTreeSet<u32>,
}

/// One entry per leaf.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaves {
    /// The running gang on it.
    pub(crate) holder: Vec<u32>,
    /// The preempting gang that gets it next.
    pub(crate) claim: Vec<u32>,
    /// The quota cell bound to it.
    pub(crate) quota: Vec<u32>,
    /// The virtual cluster that has it, by its number among the owners.
    pub(crate) owner: Vec<u32>,
    /// Why it cannot be used: a sum of [`BAD_NODE`] and so on, 0 if it can.
    pub(crate) fault: Vec<u8>,
    /// Its device index on its machine.
    pub(crate) device: Vec<u32>,
}

/// The machine is not healthy.
pub(crate) const BAD_NODE: u8 = 1;
/// The device is not healthy.
pub(crate) const BAD_DEVICE: u8 = 2;
/// Nothing new may start on the machine.
pub(crate) const CORDONED: u8 = 4;

/// One entry per machine and chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTable {
    pub(crate) name: Vec<String>,
    /// Leaves that guaranteed gangs hold or claim.
    pub(crate) guaranteed: Vec<u32>,
    pub(crate) by_name: BTreeMap<String, Vec<u32>>,
    /// Which machine it is; one in several chains is several nodes.
    pub(crate) machine: Vec<u32>,
    pub(crate) machines: Vec<MachineShares>,
}

/// A cell that is promised to a virtual cluster.
#[derive(Clone, Debug)]
pub(crate) struct Quota {
    pub(crate) pool: u32,
    pub(crate) level: usize,
    /// The physical cell it is bound to.
    pub(crate) cell: u32,
    /// Whether it is, by everybody's word. If not it only stands there, and nothing is placed on it.
    pub(crate) is_bound: bool,
    /// The one it was bound to first.
    pub(crate) home: u32,
    /// Leaves that guaranteed gangs hold or claim.
    pub(crate) guaranteed: u32,
    /// Unusable leaves.
    pub(crate) bad: u32,
}

/// What one virtual cluster is promised of one chain, or one pinned cell.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) vc: String,
    pub(crate) chain: usize,
    /// The pinned cell's name, empty for cells of any place.
    pub(crate) pinned: String,
    pub(crate) quotas: Vec<u32>,
    /// Leaves of all of them, and of those that have no place.
    pub(crate) promised: u64,
    /// Leaves that nobody uses.
    pub(crate) free: LeafView,
    /// Leaves that no guaranteed gang uses.
    pub(crate) claimable: LeafView,
}

/// A virtual cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vc {
    /// Its pools that are not pinned, in the order of the chains.
    pub(crate) pools: Vec<u32>,
    /// Cells that it is promised and that have no place: others have all that could be one.
    pub(crate) unplaced: u32,
    pub(crate) pinned: BTreeMap<String, u32>,
}

/// What [`refresh`] has to look at again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dirty {
    pub(crate) nodes: Vec<u32>,
    pub(crate) is_dirty: Vec<bool>,
}

impl Chain {
    /// Whether its leaves are what a member asks for: of that type, or any GPU if no type is
    /// named.
    pub(crate) fn serves(&self, leaf_type: &str) -> bool {
        match leaf_type {
            "" => self.is_for_any,
            leaf_type => self.shape.types[0] == leaf_type,
        }
    }
}

impl Cells {
    /// The chain of a leaf.
    pub(crate) fn chain_of(&self, leaf: Leaf) -> usize {
        self.chains.partition_point(|chain| chain.leaf_base <= leaf) - 1
    }

    /// The chain of a leaf and its number there.
    pub(crate) fn local(&self, leaf: Leaf) -> (usize, u32) {
        let chain = self.chain_of(leaf);
        (chain, leaf - self.chains[chain].leaf_base)
    }

    /// The machine of a leaf, in the cluster's numbering.
    pub(crate) fn node_of(&self, leaf: Leaf) -> u32 {
        let (chain, local) = self.local(leaf);
        let chain = &self.chains[chain];
        chain.node_base + local / chain.shape.size[chain.shape.node]
    }

    /// The leaves of a cell.
    pub(crate) fn leaves_of(&self, chain: usize, level: usize, cell: u32) -> std::ops::Range<Leaf> {
        let chain = &self.chains[chain];
        let size = chain.shape.size[level];
        let first = chain.leaf_base + cell * size;
        first..first + size
    }

    pub(crate) fn chain_of_node(&self, node: u32) -> usize {
        self.chains.partition_point(|chain| chain.node_base <= node) - 1
    }

    /// The chain and the leaves of a machine.
    pub(crate) fn leaves_of_node(&self, node: u32) -> (usize, std::ops::Range<Leaf>) {
        let chain = self.chain_of_node(node);
        let cell = node - self.chains[chain].node_base;
        (
            chain,
            self.leaves_of(chain, self.chains[chain].shape.node, cell),
        )
    }

    pub(crate) fn quota_of(&self, leaf: Leaf) -> Option<&Quota> {
        self.quotas.get(at(self.leaves.quota[at(leaf)]))
    }

    /// The physical cell a quota cell is bound to, as its leaves.
    pub(crate) fn bound(&self, quota: &Quota) -> std::ops::Range<Leaf> {
        self.leaves_of(self.pools[at(quota.pool)].chain, quota.level, quota.cell)
    }

    /// How many leaves a virtual cluster is promised, pinned ones left out.
    pub(crate) fn promised(&self, vc: &str) -> u64 {
        let pools = self.vcs.get(vc).into_iter().flat_map(|vc| &vc.pools);
        pools.map(|pool| self.pools[at(*pool)].promised).sum()
    }

    /// Whether nothing new starts on the leaf's machine because somebody wants it so.
    pub fn is_cordoned(&self, leaf: Leaf) -> bool {
        self.leaves.fault[at(leaf)] & CORDONED != 0
    }

    /// Whether the leaf is on a machine that cannot be reached.
    pub fn is_away(&self, leaf: Leaf) -> bool {
        self.leaves.fault[at(leaf)] & BAD_NODE != 0
    }

    /// Whether the leaf is healthy and on a machine that takes work.
    pub fn is_usable(&self, leaf: Leaf) -> bool {
        self.usable(leaf)
    }

    pub(crate) fn usable(&self, leaf: Leaf) -> bool {
        self.leaves.fault[at(leaf)] == 0
    }

    pub(crate) fn holder(&self, leaf: Leaf) -> Option<&PlacedGang> {
        self.gangs.get(self.leaves.holder[at(leaf)])
    }

    pub(crate) fn is_unused(&self, leaf: Leaf) -> bool {
        self.leaves.holder[at(leaf)] == NONE && self.leaves.claim[at(leaf)] == NONE
    }

    /// Whether a guaranteed gang, or one that stays, holds or claims the leaf.
    pub(crate) fn is_guaranteed(&self, leaf: Leaf) -> bool {
        let held =
            |running: &PlacedGang| running.mode == AllocationMode::Guaranteed || running.gang.stays;
        self.leaves.claim[at(leaf)] != NONE || self.holder(leaf).is_some_and(held)
    }

    /// The priority at which a leaf is held, -1 if opportunistically; none if nobody holds it.
    pub(crate) fn priority_of(&self, leaf: Leaf) -> Option<i32> {
        let running = self.holder(leaf)?;
        Some(match running.mode {
            AllocationMode::Opportunistic => crate::gang::OPPORTUNISTIC,
            AllocationMode::Guaranteed | AllocationMode::Preempting => running.gang.priority,
        })
    }

    /// A running or preempting gang and where it is.
    pub fn gang(&self, id: crate::gang::GangNumber) -> Option<(&Gang, &Placement, GangState)> {
        let running = self.gangs.by_id(id)?;
        Some((&running.gang, &running.placement, running.state()))
    }

    /// Every gang that runs or preempts, by id.
    pub fn gangs(&self) -> impl Iterator<Item = (&Gang, &Placement, GangState)> {
        let all = self.gangs.all();
        all.map(|running| (&running.gang, &running.placement, running.state()))
    }

    /// The gangs that claim leaves which others have to give up, by id.
    pub fn claiming(&self) -> impl Iterator<Item = crate::gang::GangNumber> {
        self.gangs.claiming()
    }

    /// How many leaf cells there are.
    pub fn leaf_count(&self) -> u32 {
        crate::index::small(self.leaves.holder.len())
    }

    /// The machine and the device index of a leaf.
    pub fn address(&self, leaf: Leaf) -> (&str, u32) {
        let node = self.node_of(leaf);
        (&self.nodes.name[at(node)], self.leaves.device[at(leaf)])
    }

    /// The running gang that holds a leaf.
    pub fn held_by(&self, leaf: Leaf) -> Option<crate::gang::GangNumber> {
        self.holder(leaf).map(|running| running.gang.id)
    }

    /// The type of a leaf.
    pub fn leaf_type(&self, leaf: Leaf) -> &str {
        &self.chains[self.chain_of(leaf)].shape.types[0]
    }

    /// The names of all machines.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.by_name.keys().map(|name| &**name)
    }

    /// The cell of a type above a leaf: equal for two leaves if one such cell has both.
    pub fn cell_of(&self, leaf: Leaf, cell_type: &str) -> Option<(usize, usize, u32)> {
        let (number, local) = self.local(leaf);
        let shape = &self.chains[number].shape;
        let level = shape.level_of(cell_type)?;
        Some((number, level, local / shape.size[level]))
    }

    /// Where a leaf is now, given its machine and device index.
    pub fn leaf(&self, node: &str, address: u32) -> Option<Leaf> {
        self.find_leaf(node, address)
    }

    /// The leaves of a machine, of all its chains.
    pub fn leaves_on(&self, node: &str) -> impl Iterator<Item = Leaf> {
        let nodes = self.nodes.by_name.get(node).into_iter().flatten();
        nodes.flat_map(|node| self.leaves_of_node(*node).1)
    }

    pub(crate) fn find_leaf(&self, node: &str, device: u32) -> Option<Leaf> {
        let nodes = self.nodes.by_name.get(node)?;
        let mut leaves = nodes.iter().flat_map(|node| self.leaves_of_node(*node).1);
        leaves.find(|leaf| self.leaves.device[at(*leaf)] == device)
    }

    pub(crate) fn frame_of(&self, chain: usize) -> &ViewFrame {
        &self.chains[chain].free.frame
    }
}
