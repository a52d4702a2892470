//! Getting unused quota cells off bad hardware.

use super::case::GangCase;
use super::guaranteed::finish;
use super::limits::{When, fit_within};
use super::room::{Room, placement};
use super::spare::{idle_cells, may_take};
use super::{Decision, DecisionPolicy};
use crate::cells::{Cells, Quota};
use crate::gang::{Grant, Leaf, Swap};
use crate::index::{LeafView, at, small};

/// Exchanges of unused quota cells on bad hardware for good cells that nobody was promised, and
/// of those that can go back to where they were bound first; to be applied one by one as
/// [`Swapped`](crate::cells::CellEvent::Swapped).
pub fn repairs(cells: &Cells) -> Vec<Swap> {
    let policy = DecisionPolicy::default();
    let mut all: Vec<Swap> = Vec::new();
    for pool in 0..small(cells.pools.len()) {
        for swap in (PoolRepair::of_pool(cells, &policy, pool)).swaps {
            add(cells, &mut all, swap);
        }
    }
    let away = cells.chains.iter().flat_map(|chain| &chain.away);
    for swap in away.filter_map(|number| cells.way_home(*number)) {
        add(cells, &mut all, swap);
    }
    all
}

/// Adds an exchange unless it has to do with cells that are exchanged already.
fn add(cells: &Cells, swaps: &mut Vec<Swap>, swap: Swap) {
    if !swaps.iter().any(|other| overlap(cells, other, &swap)) {
        swaps.push(swap);
    }
}

fn sides(cells: &Cells, swap: &Swap) -> [std::ops::Range<Leaf>; 2] {
    [swap.a, swap.b].map(|cell| cells.leaves_of(swap.chain, swap.level, cell))
}

fn overlap(cells: &Cells, a: &Swap, b: &Swap) -> bool {
    let (a, b) = (sides(cells, a), sides(cells, b));
    let meet = |x: &std::ops::Range<Leaf>| b.iter().any(|y| x.start < y.end && y.start < x.end);
    a.iter().any(meet)
}

/// The gang within its pool once bad unused cells are exchanged for good ones.
pub(super) fn repaired(case: &GangCase<'_>, pool: u32) -> Option<Decision> {
    let cells = case.cells;
    let repair = PoolRepair::of_pool(cells, case.policy, pool);
    if repair.swaps.is_empty() {
        return None;
    }
    let view = repair.view();
    let room = Room {
        view: &view,
        leaf_base: cells.chains[cells.pools[at(pool)].chain].leaf_base,
    };
    let spots = fit_within(case, &case.limits, room, When::Evicting)?;
    let placement = placement(&[room], &spots);
    let used = |swap: &Swap| {
        let sides = sides(cells, swap);
        placement
            .leaves()
            .any(|leaf| sides.iter().any(|side| side.contains(&leaf)))
    };
    let swaps = repair.swaps.into_iter().filter(used).collect();
    let grant = Grant {
        placement,
        swaps,
        demoted: Vec::new(),
    };
    finish(case, grant, Vec::new())
}

/// What can be exchanged for one pool.
struct PoolRepair<'a> {
    cells: &'a Cells,
    policy: &'a DecisionPolicy,
    pool: u32,
    swaps: Vec<Swap>,
}

impl<'a> PoolRepair<'a> {
    fn of_pool(cells: &'a Cells, policy: &'a DecisionPolicy, number: u32) -> Self {
        let pool = &cells.pools[at(number)];
        let mut repair = Self {
            cells,
            policy,
            pool: number,
            swaps: Vec::new(),
        };
        if !pool.pinned.is_empty() || cells.chains[pool.chain].bad == 0 {
            return repair;
        }
        let quotas = pool.quotas.iter().map(|quota| &cells.quotas[at(*quota)]);
        let bad = quotas.filter(|quota| quota.bad > 0 && quota.guaranteed == 0);
        let mut bad: Vec<&Quota> = bad.collect();
        // Larger cells first: smaller ones find places that no larger one could use.
        bad.sort_by_key(|quota| std::cmp::Reverse(quota.level));
        for quota in bad {
            let swap = repair
                .like_for_like(quota)
                .or_else(|| repair.with_dependencies(quota));
            repair.swaps.extend(swap);
        }
        repair
    }

    fn chain(&self) -> usize {
        self.cells.pools[at(self.pool)].chain
    }

    /// The quota cell for a good cell of its level: an idle one first.
    fn like_for_like(&self, quota: &Quota) -> Option<Swap> {
        let (chain, level) = (self.chain(), quota.level);
        let swap = |b: u32| Swap {
            chain,
            level,
            a: quota.cell,
            b,
        };
        let idle = idle_cells(self.cells, chain, level);
        let all = 0..self.cells.chains[chain].shape.count(level);
        let mut cells = idle.into_iter().chain(all);
        cells
            .find(|cell| self.is_gain(level, *cell) && self.is_possible(swap(*cell)))
            .map(swap)
    }

    /// The quota cell together with what is around it, when who comes first gets the good cells:
    /// they may lie in a larger quota cell that nobody uses.
    fn with_dependencies(&self, quota: &Quota) -> Option<Swap> {
        let (chain, shape) = (self.chain(), &self.cells.chains[self.chain()].shape);
        if !self.policy.first_come {
            return None;
        }
        for level in quota.level + 1..=shape.top() {
            let ratio = shape.size[level] / shape.size[quota.level];
            let a = quota.cell / ratio;
            if !self.cells.is_movable(chain, level, a) {
                return None;
            }
            let swap = |b: u32| Swap { chain, level, a, b };
            let there = |b: u32| b * ratio + quota.cell % ratio;
            let mut others = (0..shape.count(level)).filter(|b| *b != a);
            let gain = |b: &u32| self.is_gain(quota.level, there(*b)) && self.is_possible(swap(*b));
            if let Some(b) = others.find(gain) {
                return Some(swap(b));
            }
        }
        None
    }

    /// Whether a cell is good, without guaranteed gangs, and not the pool's own already.
    fn is_gain(&self, level: usize, cell: u32) -> bool {
        let mut leaves = self.cells.leaves_of(self.chain(), level, cell);
        leaves.all(|leaf| {
            let own = self
                .cells
                .quota_of(leaf)
                .is_some_and(|quota| quota.pool == self.pool);
            !own && self.cells.usable(leaf) && !self.cells.is_guaranteed(leaf)
        })
    }

    fn is_possible(&self, swap: Swap) -> bool {
        self.cells.swap_problem(swap).is_none()
            && may_take(
                self.cells,
                self.policy,
                (swap.chain, swap.level, swap.b),
                true,
            )
            && !self
                .swaps
                .iter()
                .any(|other| overlap(self.cells, other, &swap))
    }

    /// What the pool's gangs could claim after the exchanges.
    fn view(&self) -> LeafView {
        let mut view = self.cells.pools[at(self.pool)].claimable.clone();
        let base = self.cells.chains[self.chain()].leaf_base;
        let is_own = |leaf: Leaf| {
            let quota = self.cells.leaves.quota[at(leaf)];
            let quota = self.cells.quotas.get(at(quota));
            quota.is_some_and(|quota| quota.pool == self.pool && quota.is_bound)
        };
        for swap in &self.swaps {
            let [a, b] = sides(self.cells, swap);
            for (a, b) in a.zip(b) {
                for (here, there) in [(a, b), (b, a)] {
                    let free = self.cells.usable(here) && !self.cells.is_guaranteed(here);
                    view.set_leaf(here - base, is_own(there) && free);
                }
            }
        }
        view.settle();
        view
    }
}
