//! Keeping cells whole for who was promised whole ones.
//!
//! A large quota cell of which a part is bad is of no use to who needs all of it, while its good part is as good
//! as any other to who needs less. So a gang that would break the last whole cell that is left for such a quota
//! cell goes elsewhere: to other idle leaves of its pool, or to the good part of the damaged cell, in exchange
//! for the whole one. Nobody is evicted for it.

use std::collections::{BTreeMap, BTreeSet};

use super::case::GangCase;
use super::fit::fit_across;
use super::limits::{When, fit_within, within};
use super::room::{Room, placement};
use crate::cells::{Cells, Quota};
use crate::gang::{Grant, Leaf, Placement, Swap};
use crate::index::{LeafView, NONE, at};

/// The whole cells of one level, and who needs one.
struct WholeLevel<'a> {
    case: &'a GangCase<'a>,
    chain: usize,
    level: usize,
    /// Damaged quota cells of the level that nobody uses.
    damaged: Vec<&'a Quota>,
}

/// What a gang gets instead of a place that would break a promise of a whole cell; none if it breaks none, or there
/// is nothing else.
pub(super) fn spared(case: &GangCase<'_>, pools: &[u32], found: &Placement) -> Option<Grant> {
    let cells = case.cells;
    let chain = cells.chain_of(found.leaves().next()?);
    if cells.chains[chain].bad == 0 {
        return None;
    }
    let of_chain = |pool: &&u32| cells.pools[at(**pool)].chain == chain;
    let pools: Vec<u32> = pools.iter().filter(of_chain).copied().collect();
    let levels = damaged(cells, chain, found);
    let mut levels = levels.into_iter().rev().map(|(level, damaged)| WholeLevel {
        case,
        chain,
        level,
        damaged,
    });
    levels.find_map(|level| level.instead(&pools, found))
}

/// The damaged quota cells that are larger than what the gang was found in, by level.
fn damaged<'a>(
    cells: &'a Cells,
    chain: usize,
    found: &Placement,
) -> BTreeMap<usize, Vec<&'a Quota>> {
    let own = found.leaves().filter_map(|leaf| cells.quota_of(leaf));
    let least = own.map(|quota| quota.level).min().unwrap_or_default();
    let mut levels: BTreeMap<usize, Vec<&Quota>> = BTreeMap::new();
    for quota in &cells.quotas {
        let pool = &cells.pools[at(quota.pool)];
        let is_one = pool.chain == chain && pool.pinned.is_empty() && quota.is_bound;
        if is_one && quota.level > least && quota.bad > 0 && quota.guaranteed == 0 {
            levels.entry(quota.level).or_default().push(quota);
        }
    }
    levels
}

impl WholeLevel<'_> {
    fn instead(&self, pools: &[u32], found: &Placement) -> Option<Grant> {
        let broken = self.broken(found);
        if broken.is_empty() || !self.is_harm(broken.len()) {
            return None;
        }
        let grant = |placement, swaps| Grant {
            placement,
            swaps,
            demoted: Vec::new(),
        };
        if let Some(placement) = self.fit(pools, None) {
            return Some(grant(placement, Vec::new()));
        }
        let swaps = self.damaged.iter().flat_map(|quota| {
            broken.iter().map(|cell| Swap {
                chain: self.chain,
                level: self.level,
                a: quota.cell,
                b: *cell,
            })
        });
        let mut swaps = swaps.filter(|swap| self.is_possible(*swap));
        swaps.find_map(|swap| Some(grant(self.fit(pools, Some(swap))?, vec![swap])))
    }

    /// The whole cells, in no quota cell of their level, that a gang there would be in.
    fn broken(&self, found: &Placement) -> BTreeSet<u32> {
        let size = self.case.cells.chains[self.chain].shape.size[self.level];
        let base = self.case.cells.chains[self.chain].leaf_base;
        let cells: BTreeSet<u32> = found.leaves().map(|leaf| (leaf - base) / size).collect();
        let breaks = |cell: &u32| self.is_whole(*cell) && !self.is_promised(*cell);
        cells.into_iter().filter(breaks).collect()
    }

    /// Whether all of a cell can be had.
    fn is_whole(&self, cell: u32) -> bool {
        let cells = self.case.cells;
        let mut leaves = cells.leaves_of(self.chain, self.level, cell);
        leaves.all(|leaf| cells.usable(leaf) && !cells.is_guaranteed(leaf))
            && cells.is_movable(self.chain, self.level, cell)
    }

    /// Whether a cell is a quota cell of the level itself.
    fn is_promised(&self, cell: u32) -> bool {
        let cells = self.case.cells;
        let first = cells.leaves_of(self.chain, self.level, cell).start;
        let quota = cells.quota_of(first);
        quota.is_some_and(|quota| quota.level == self.level)
    }

    /// Whether so many whole cells less are too few for the quota cells of the level that nobody uses, and would
    /// not be too few without.
    fn is_harm(&self, fewer: usize) -> bool {
        let cells = self.case.cells;
        let unused = |quota: &&Quota| {
            let pool = &cells.pools[at(quota.pool)];
            let is_one = pool.chain == self.chain && pool.pinned.is_empty() && quota.is_bound;
            is_one && quota.level == self.level && quota.guaranteed == 0
        };
        let needed = cells.quotas.iter().filter(unused).count();
        let all = 0..cells.chains[self.chain].shape.count(self.level);
        let whole = all.filter(|cell| self.is_whole(*cell));
        whole.take(needed + fewer).count() < needed + fewer
    }

    /// Whether two cells may trade what is promised in them without harm to a third.
    fn is_possible(&self, swap: Swap) -> bool {
        let cells = self.case.cells;
        let (chain, level) = (self.chain, self.level);
        let there = cells.leaves_of(chain, level, swap.a).start;
        let here = cells.leaves_of(chain, level, swap.b).start;
        let is_unharmed = |quota: &Quota| {
            let mut moved = cells.bound(quota).map(|leaf| leaf - here + there);
            let is_own = cells.pools[at(quota.pool)].vc == self.case.gang.vc;
            is_own || moved.all(|leaf| cells.usable(leaf))
        };
        let mut inside = cells.quotas_in(chain, level, swap.b).into_iter();
        cells.swap_problem(swap).is_none()
            && (self.case.policy.first_come
                || inside.all(|quota| is_unharmed(&cells.quotas[at(quota)])))
    }

    /// A place on idle leaves of the pools, as they are after the exchange, outside of whole cells.
    fn fit(&self, pools: &[u32], swap: Option<Swap>) -> Option<Placement> {
        let views: Vec<LeafView> = pools.iter().map(|pool| self.view(*pool, swap)).collect();
        let leaf_base = self.case.cells.chains[self.chain].leaf_base;
        let rooms: Vec<Room<'_>> = views.iter().map(|view| Room { view, leaf_base }).collect();
        let (case, limits) = (self.case, &self.case.limits);
        for room in &rooms {
            if let Some(spots) = fit_within(case, limits, *room, When::Now) {
                return Some(placement(&[*room], &spots));
            }
        }
        if rooms.len() < 2 {
            return None;
        }
        let spots = within(case, limits, (&rooms, When::Now), &fit_across)?;
        Some(placement(&rooms, &spots))
    }

    fn view(&self, pool: u32, swap: Option<Swap>) -> LeafView {
        let cells = self.case.cells;
        let base = cells.chains[self.chain].leaf_base;
        let mut view = cells.pools[at(pool)].free.clone();
        let all = 0..cells.chains[self.chain].shape.count(self.level);
        let left = all.filter(|cell| self.is_whole(*cell) && !self.is_promised(*cell));
        let hidden: BTreeSet<u32> = left.collect();
        for cell in &hidden {
            for leaf in cells.leaves_of(self.chain, self.level, *cell) {
                view.set_leaf(leaf - base, false);
            }
        }
        if let Some(swap) = swap {
            let [a, b] = [swap.a, swap.b].map(|cell| cells.leaves_of(self.chain, self.level, cell));
            for (damaged, whole) in a.zip(b) {
                let free = self.is_own(whole, pool) && is_idle(cells, damaged);
                view.set_leaf(damaged - base, free);
                view.set_leaf(whole - base, false);
            }
        }
        view.settle();
        view
    }

    fn is_own(&self, leaf: Leaf, pool: u32) -> bool {
        let quota = self.case.cells.quota_of(leaf);
        quota.is_some_and(|quota| quota.pool == pool && quota.is_bound)
    }
}

/// Whether a leaf can be used and nobody does.
fn is_idle(cells: &Cells, leaf: Leaf) -> bool {
    cells.usable(leaf)
        && cells.leaves.holder[at(leaf)] == NONE
        && cells.leaves.claim[at(leaf)] == NONE
}

#[cfg(test)]
mod tests;
