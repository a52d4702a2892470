//! What a virtual cluster sees of its promise: which of its cells are good.
//!
//! An unused quota cell may be bound to bad hardware and still be good, because it can be
//! exchanged for a good cell when it is needed. It is shown bad only if there is none for it.

use std::collections::BTreeSet;

use super::Cells;
use crate::gang::Leaf;
use crate::index::at;

/// One cell of a virtual cluster, as its users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcCell {
    /// Whether no guaranteed gang is in it.
    pub free: bool,
    /// Whether no good hardware is left for it.
    pub bad: bool,
}

impl Cells {
    /// The cells of a type that a virtual cluster is promised in a chain, pinned ones left out.
    pub fn vc_cells(&self, vc: &str, chain: &str, cell_type: &str) -> Vec<VcCell> {
        let is_it = |c: &super::Chain| c.shape.types.last().is_some_and(|top| top == chain);
        let Some(chain) = self.chains.iter().position(is_it) else {
            return Vec::new();
        };
        let level = self.chains[chain].shape.level_of(cell_type);
        let (Some(vc), Some(level)) = (self.vcs.get(vc), level) else {
            return Vec::new();
        };
        let pools = vc.pools.iter().map(|pool| &self.pools[at(*pool)]);
        let pools = pools.filter(|pool| pool.chain == chain);
        let mut quotas: Vec<u32> = pools.flat_map(|pool| pool.quotas.iter().copied()).collect();
        quotas.retain(|quota| self.quotas[at(*quota)].level >= level);
        let is_bad = |level, cell| self.is_bad(chain, level, cell);
        let short = self.short_of(chain, &quotas, &is_bad);
        let shown = quotas
            .iter()
            .flat_map(|q| self.shown(chain, *q, level, short.contains(q)));
        shown.collect()
    }

    /// The leaves that are promised to a virtual cluster at the moment, pinned ones too.
    pub fn promised_leaves(&self, vc: &str) -> impl Iterator<Item = Leaf> {
        let vc = self.vcs.get(vc).into_iter();
        let pools = vc.flat_map(|vc| vc.pools.iter().chain(vc.pinned.values()));
        let quotas = pools.flat_map(|pool| &self.pools[at(*pool)].quotas);
        quotas.flat_map(|quota| self.bound(&self.quotas[at(*quota)]))
    }

    /// Whether a gang of the virtual cluster holds the leaf within its quota.
    pub fn is_held_by(&self, leaf: Leaf, vc: &str) -> bool {
        let held = |running: &super::PlacedGang| {
            running.mode == super::AllocationMode::Guaranteed && running.gang.vc == vc
        };
        self.holder(leaf).is_some_and(held)
    }

    /// Leaves that a virtual cluster is promised but cannot use, nor have exchanged.
    pub fn short_leaves(&self, vc: &str) -> Vec<Leaf> {
        let Some(vc) = self.vcs.get(vc) else {
            return Vec::new();
        };
        let mut short = Vec::new();
        for number in vc.pools.iter().chain(vc.pinned.values()) {
            let pool = &self.pools[at(*number)];
            let is_pinned = !pool.pinned.is_empty();
            let is_bad = |level, cell| {
                let mut leaves = self.leaves_of(pool.chain, level, cell);
                leaves.any(|leaf| !self.usable(leaf))
            };
            let without = self.short_of(pool.chain, &pool.quotas, &is_bad);
            let stuck = pool.quotas.iter().filter(|number| {
                let quota = &self.quotas[at(**number)];
                is_pinned || quota.guaranteed > 0 || without.contains(number)
            });
            let leaves = stuck.flat_map(|number| self.bound(&self.quotas[at(*number)]));
            short.extend(leaves.filter(|leaf| !self.usable(*leaf)));
        }
        short
    }

    /// Leaves that cannot be used of those that a virtual cluster is promised: of its pinned cell of this
    /// name, or of all that are not pinned.
    pub(crate) fn unusable_leaves(&self, vc: &str, pinned: &str) -> Vec<Leaf> {
        let Some(vc) = self.vcs.get(vc) else {
            return Vec::new();
        };
        let pools = match pinned {
            "" => vc.pools.clone(),
            pinned => vc.pinned.get(pinned).copied().into_iter().collect(),
        };
        let quotas = pools.iter().flat_map(|pool| &self.pools[at(*pool)].quotas);
        let bad = quotas.map(|number| &self.quotas[at(*number)]);
        let leaves = bad
            .filter(|quota| quota.bad > 0)
            .flat_map(|quota| self.bound(quota));
        leaves.filter(|leaf| !self.usable(*leaf)).collect()
    }

    /// The names of all virtual clusters.
    pub fn vc_names(&self) -> impl Iterator<Item = &str> {
        self.vcs.keys().map(|name| &**name)
    }

    /// Which of the unused quota cells there is no good cell for.
    fn short_of(
        &self,
        chain: usize,
        quotas: &[u32],
        is_bad: &dyn Fn(usize, u32) -> bool,
    ) -> BTreeSet<u32> {
        let mut short = BTreeSet::new();
        let levels: BTreeSet<usize> = quotas.iter().map(|q| self.quotas[at(*q)].level).collect();
        for level in levels {
            let mut unused: Vec<u32> = quotas.to_vec();
            unused.retain(|q| {
                let quota = &self.quotas[at(*q)];
                quota.level == level && quota.guaranteed == 0
            });
            // The ones on bad hardware first: they are the ones to be shown.
            unused.sort_by_key(|q| !is_bad(level, self.quotas[at(*q)].cell));
            let good = (0..self.chains[chain].shape.count(level))
                .filter(|cell| !is_bad(level, *cell))
                .filter(|cell| self.is_to_be_had(chain, level, *cell))
                .count();
            let missing = unused.len().saturating_sub(good);
            short.extend(unused.into_iter().take(missing));
        }
        short
    }

    /// Whether no quota cell in use, nor a pinned one, has to do with a cell.
    fn is_to_be_had(&self, chain: usize, level: usize, cell: u32) -> bool {
        self.quotas_in(chain, level, cell)
            .into_iter()
            .all(|number| {
                let quota = &self.quotas[at(number)];
                quota.guaranteed == 0 && self.pools[at(quota.pool)].pinned.is_empty()
            })
    }

    fn shown(&self, chain: usize, quota: u32, level: usize, short: bool) -> Vec<VcCell> {
        let quota = &self.quotas[at(quota)];
        let sizes = &self.chains[chain].shape.size;
        let ratio = sizes[quota.level] / sizes[level];
        let cells = quota.cell * ratio..(quota.cell + 1) * ratio;
        let cell = |cell| VcCell {
            free: !self
                .leaves_of(chain, level, cell)
                .any(|leaf| self.is_guaranteed(leaf)),
            bad: (quota.guaranteed > 0 || short) && self.is_bad(chain, level, cell),
        };
        cells.map(cell).collect()
    }
}
