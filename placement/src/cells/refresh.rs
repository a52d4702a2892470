//! Keeps the views true to the leaves: whoever changes a leaf marks its machine, and every
//! event ends with [`Cells::refresh`].

use super::{AllocationMode, Cells, Sum};
use crate::gang::{Gang, Leaf, Placement};
use crate::index::{LeafView, at, small};

/// The free leaves of one bin of a pool.
#[derive(Clone, Copy, Debug)]
struct FreeBin {
    pool: u32,
    bin: usize,
    free: u128,
    claimable: u128,
}

impl Cells {
    /// Marks the machine of a leaf to be looked at again.
    pub(crate) fn touch(&mut self, leaf: Leaf) {
        let node = self.node_of(leaf);
        self.touch_node(node);
    }

    fn touch_node(&mut self, node: u32) {
        if !self.dirty.is_dirty[at(node)] {
            self.dirty.is_dirty[at(node)] = true;
            self.dirty.nodes.push(node);
        }
    }

    pub(crate) fn touch_everything(&mut self) {
        for node in 0..small(self.nodes.name.len()) {
            self.touch_node(node);
        }
    }

    /// Counts a leaf whose use by guaranteed gangs may have changed, and marks it.
    pub(crate) fn recount(&mut self, leaf: Leaf, before: bool) {
        let after = self.is_guaranteed(leaf);
        let node = self.node_of(leaf);
        self.touch_node(node);
        if before == after {
            return;
        }
        let chain = self.chain_of(leaf);
        let quota = self.quotas.get_mut(at(self.leaves.quota[at(leaf)]));
        let counts = [
            Some(&mut self.nodes.guaranteed[at(node)]),
            Some(&mut self.chains[chain].guaranteed),
            quota.map(|quota| &mut quota.guaranteed),
        ];
        for count in counts.into_iter().flatten() {
            *count = if after { *count + 1 } else { *count - 1 };
        }
    }

    /// Changes who holds a leaf.
    pub(crate) fn set_holder(&mut self, leaf: Leaf, slot: u32) {
        let before = self.is_guaranteed(leaf);
        self.leaves.holder[at(leaf)] = slot;
        self.recount(leaf, before);
    }

    /// Changes who claims a leaf.
    pub(crate) fn set_claim(&mut self, leaf: Leaf, slot: u32) {
        let before = self.is_guaranteed(leaf);
        self.leaves.claim[at(leaf)] = slot;
        self.recount(leaf, before);
    }

    /// Files a gang and counts what it takes of machines; its leaves are still to be given.
    pub(crate) fn insert(&mut self, gang: Gang, placement: Placement, mode: AllocationMode) -> u32 {
        let slot = self.gangs.insert(gang, placement, mode);
        self.count_shares(slot, Sum::add);
        slot
    }

    /// Forgets a gang whose leaves nobody has any more.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.count_shares(slot, Sum::take);
        self.gangs.remove(slot);
    }

    /// Changes how a gang has its leaves.
    pub(crate) fn set_mode(&mut self, slot: u32, mode: AllocationMode) {
        let Some(running) = self.gangs.get(slot) else {
            return;
        };
        let leaves: Vec<Leaf> = running.placement.leaves().collect();
        let before: Vec<bool> = leaves
            .iter()
            .map(|leaf| self.is_guaranteed(*leaf))
            .collect();
        self.count_shares(slot, Sum::take);
        self.gangs.set_mode(slot, mode);
        self.count_shares(slot, Sum::add);
        for (leaf, before) in leaves.into_iter().zip(before) {
            self.recount(leaf, before);
        }
    }

    /// Brings all views up to date.
    pub(crate) fn refresh(&mut self) {
        if self.dirty.nodes.is_empty() {
            return;
        }
        let mut parts = Vec::new();
        let mut pools = Vec::new();
        while let Some(node) = self.dirty.nodes.pop() {
            self.dirty.is_dirty[at(node)] = false;
            self.refresh_node(node, &mut parts);
            for part in parts.drain(..) {
                let pool = &mut self.pools[at(part.pool)];
                pool.free.set(part.bin, part.free);
                pool.claimable.set(part.bin, part.claimable);
                if pools.last() != Some(&part.pool) {
                    pools.push(part.pool);
                }
            }
        }
        for chain in &mut self.chains {
            chain.free.settle();
            chain.quiet.settle();
        }
        for pool in pools {
            self.pools[at(pool)].free.settle();
            self.pools[at(pool)].claimable.settle();
        }
    }

    fn refresh_node(&mut self, node: u32, parts: &mut Vec<FreeBin>) {
        let (number, leaves) = self.leaves_of_node(node);
        let first = leaves.start - self.chains[number].leaf_base;
        let mut free = 0u128;
        for (offset, leaf) in leaves.enumerate() {
            let unused = self.usable(leaf) && self.is_unused(leaf);
            free |= u128::from(unused) << offset;
            self.part(leaf, first + small(offset), unused, parts);
        }
        let quiet = self.nodes.guaranteed[at(node)] == 0;
        let chain = &mut self.chains[number];
        let bin = at(node - chain.node_base);
        chain.free.set(bin, free);
        chain.quiet.set(bin, if quiet { free } else { 0 });
    }

    /// Adds a leaf to the part of its pool.
    fn part(&self, leaf: Leaf, local: u32, unused: bool, parts: &mut Vec<FreeBin>) {
        let quota = self.leaves.quota[at(leaf)];
        let Some(quota) = self.quotas.get(at(quota)).filter(|quota| quota.is_bound) else {
            return;
        };
        let pool = quota.pool;
        let (bin, bit) = self.pools[at(pool)].free.frame.bin_of(local);
        let same = |part: &FreeBin| part.pool == pool && part.bin == bin;
        let known = match parts.iter().rposition(same) {
            Some(known) => known,
            None => {
                parts.push(FreeBin {
                    pool,
                    bin,
                    free: 0,
                    claimable: 0,
                });
                parts.len() - 1
            }
        };
        let claimable = unused || self.usable(leaf) && !self.is_guaranteed(leaf);
        if unused {
            parts[known].free |= bit;
        }
        if claimable {
            parts[known].claimable |= bit;
        }
    }
}

/// Takes leaves (first, count) of the chain out of a view.
pub(crate) fn clear(view: &mut LeafView, first: u32, count: u32) {
    for leaf in first..first + count {
        if view.has(leaf) {
            view.set_leaf(leaf, false);
        }
    }
    view.settle();
}
