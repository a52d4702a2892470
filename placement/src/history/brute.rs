//! Whether a gang fits, found by trying everything.

use std::collections::{BTreeMap, BTreeSet};

use super::{HistoryRun, nearness};
use crate::amount::MachineAmount;
use crate::cells::{AllocationMode, Bins, Cells, PlacedGang, Sum};
use crate::decide::split;
use crate::gang::{Gang, Leaf};
use crate::index::at;

/// Which leaves and which part of the machines there are to be had.
pub(super) struct Supply<'a> {
    /// Whether a leaf is.
    pub(super) leaf: &'a dyn Fn(Leaf) -> bool,
    /// Whether what a gang takes of machines counts as taken.
    pub(super) stays: &'a dyn Fn(&PlacedGang) -> bool,
}

impl HistoryRun {
    /// Whether the answer of [`fits`](Self::fits) is the whole truth: with several leaf types or
    /// unequal shares, or members that must be near, a search may miss a place.
    pub(super) fn is_exact(&self, gang: &Gang) -> bool {
        if nearness::is_asked(gang) {
            let is_merged = self.cells.bins == Bins::Merged;
            return is_merged && gang.members.len() == 1 && !gang.has_shares();
        }
        let first = &gang.members[0];
        let is_equal =
            |m: &crate::gang::GangMember| m.share == first.share && m.leaves == first.leaves;
        match split(gang) {
            Some(groups) => {
                let typed = groups
                    .iter()
                    .all(|group| !group.gang.leaf_type().is_empty());
                typed && !gang.has_shares()
            }
            None if gang.has_shares() => {
                gang.members.iter().all(is_equal) && self.cells.bins == Bins::Merged
            }
            None => true,
        }
    }

    /// Whether every leaf type's members fit on leaves of one chain that they may use.
    pub(super) fn fits(&self, gang: &Gang, supply: &Supply<'_>) -> bool {
        match split(gang) {
            Some(groups) => groups
                .iter()
                .all(|group| self.fits_one(&group.gang, supply)),
            None => self.fits_one(gang, supply),
        }
    }

    fn fits_one(&self, gang: &Gang, supply: &Supply<'_>) -> bool {
        if let ([member], true) = (&gang.members[..], nearness::is_asked(gang)) {
            return self.fits_near(gang, member, supply.leaf);
        }
        let mut sizes = gang.sizes();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        (0..self.cells.chains.len()).any(|chain| {
            let shape = &self.cells.chains[chain].shape;
            if !gang.leaf_type().is_empty() && shape.types[0] != gang.leaf_type() {
                return false;
            }
            packs(&mut self.bins(gang, chain, supply), &sizes)
        })
    }

    /// What pods find of leaves in each bin of a chain.
    fn bins(&self, gang: &Gang, chain: usize, supply: &Supply<'_>) -> Vec<u32> {
        let cells = &self.cells;
        let top = cells.chains[chain].shape.top();
        let mut bins: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for leaf in cells.leaves_of(chain, top, 0).start..cells.leaf_count() {
            let mine = gang.is_opportunistic() || cells.is_promised(gang, leaf);
            if cells.chain_of(leaf) == chain && mine && (supply.leaf)(leaf) {
                *bins.entry(self.bin(gang, leaf)).or_insert(0) += 1;
            }
        }
        if gang.has_shares() {
            for (bin, leaves) in &mut bins {
                let (share, size) = (gang.members[0].share, gang.members[0].leaves);
                if let Some(left) = left(cells, bin.0, supply) {
                    *leaves = (*leaves).min(left.count_of(&share).saturating_mul(size));
                }
            }
        }
        bins.into_values().collect()
    }

    /// Leaves of one bin can be one pod's.
    fn bin(&self, gang: &Gang, leaf: Leaf) -> (u32, u32) {
        let node = self.cells.node_of(leaf);
        let quota = self.cells.quota_of(leaf);
        let small = quota.is_some_and(|quota| {
            let shape = &self.cells.chains[self.cells.chain_of(leaf)].shape;
            quota.level < shape.node
        });
        if self.cells.bins == Bins::PerQuotaCell && small && !gang.is_opportunistic() {
            return (node, self.cells.leaves.quota[at(leaf)] + 1);
        }
        (node, 0)
    }
}

/// What the machine of a node has left; none if that is unlimited.
fn left(cells: &Cells, node: u32, supply: &Supply<'_>) -> Option<MachineAmount> {
    let machine = cells.nodes.machine[at(node)];
    let total = cells.nodes.machines[at(machine)].total?;
    let mut used = Sum::default();
    for running in cells.gangs.all().filter(|running| (supply.stays)(running)) {
        let shares = cells.shares_of(&running.gang, &running.placement);
        for (_, share) in shares.filter(|share| share.0 == machine) {
            used.add(share);
        }
    }
    Some(used.left_of(total))
}

/// Everything but opportunistic gangs stays.
pub(super) fn firm(running: &PlacedGang) -> bool {
    running.mode != AllocationMode::Opportunistic
}

fn packs(bins: &mut Vec<u32>, sizes: &[u32]) -> bool {
    let Some((size, rest)) = sizes.split_first() else {
        return true;
    };
    let mut tried = BTreeSet::new();
    for bin in 0..bins.len() {
        if bins[bin] >= *size && tried.insert(bins[bin]) {
            bins[bin] -= size;
            if packs(bins, rest) {
                return true;
            }
            bins[bin] += size;
        }
    }
    false
}
