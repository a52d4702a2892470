//! Exchanging quota cells: to spare an opportunistic gang, or to get off bad hardware.

use super::fit::fit;
use super::guaranteed::finish;
use super::need::Need;
use super::room::{Room, placement};
use super::{Decision, Policy};
use crate::cells::Cells;
use crate::gang::{GangId, Grant, Leaf, Placement, Swap};
use crate::index::{NONE, at, small};

/// Cells of the index that are tried for one exchange.
const CANDIDATES: u32 = 32;

/// A placement while its cells are being exchanged.
pub(super) struct Spare<'a> {
    cells: &'a Cells,
    placement: Placement,
    swaps: Vec<Swap>,
    /// Gangs that will be opportunistic when the exchanges are made.
    demoted: Vec<GangId>,
}

impl<'a> Spare<'a> {
    pub(super) fn new(cells: &'a Cells, placement: Placement, demoted: &[GangId]) -> Self {
        Self {
            cells,
            placement,
            swaps: Vec::new(),
            demoted: demoted.to_vec(),
        }
    }

    pub(super) fn into_grant(self) -> Grant {
        Grant {
            placement: self.placement,
            swaps: self.swaps,
            demoted: self.demoted,
        }
    }

    /// Exchanges every quota cell of the placement that somebody is on for an idle one, where
    /// there is one.
    pub(super) fn sidestep(&mut self) {
        let occupied = |leaf: &Leaf| self.cells.leaves.holder[at(*leaf)] != NONE;
        let quotas = self.placement.leaves().filter(occupied);
        let mut quotas: Vec<u32> = quotas
            .map(|leaf| self.cells.leaves.quota[at(leaf)])
            .collect();
        quotas.sort_unstable();
        quotas.dedup();
        for quota in quotas {
            self.sidestep_one(quota);
        }
    }

    fn sidestep_one(&mut self, number: u32) {
        let quota = &self.cells.quotas[at(number)];
        let pool = &self.cells.pools[at(quota.pool)];
        let leaves = self.cells.bound(quota);
        let whole = |pod: &Vec<Leaf>| {
            let inside = pod.iter().filter(|leaf| leaves.contains(leaf)).count();
            inside == 0 || inside == pod.len()
        };
        // A pod that lies across quota cells would be torn apart.
        let moves = pool.pinned.is_empty() && self.placement.pods.iter().all(whole);
        if !moves || !leaves.clone().all(|leaf| self.is_left(leaf)) {
            return;
        }
        let harms = leaves.clone().any(|leaf| !self.cells.usable(leaf));
        let Some(cell) = self.idle_cell(pool.chain, quota.level, harms) else {
            return;
        };
        let there = self.cells.leaves_of(pool.chain, quota.level, cell).start;
        for leaf in self.placement.pods.iter_mut().flatten() {
            if leaves.contains(leaf) {
                *leaf = *leaf - leaves.start + there;
            }
        }
        self.swaps.push(Swap {
            chain: pool.chain,
            level: quota.level,
            a: quota.cell,
            b: cell,
        });
    }

    /// Whether no guaranteed gang will be on the leaf.
    fn is_left(&self, leaf: Leaf) -> bool {
        let holder = self.cells.holder(leaf);
        let demoted = holder.is_some_and(|running| self.demoted.contains(&running.gang.id));
        self.cells.leaves.claim[at(leaf)] == NONE && (demoted || !self.cells.is_guaranteed(leaf))
    }

    /// A wholly idle cell whose promises, if any, may go where the exchange takes them.
    fn idle_cell(&self, chain: usize, level: usize, harms: bool) -> Option<u32> {
        let candidates = idle_cells(self.cells, chain, level).into_iter();
        candidates.into_iter().find(|cell| {
            may_take(self.cells, &Policy::default(), (chain, level, *cell), harms)
                && !self.touches(self.cells.leaves_of(chain, level, *cell))
        })
    }

    fn touches(&self, leaves: std::ops::Range<Leaf>) -> bool {
        let swapped = |swap: &Swap| {
            [swap.a, swap.b].into_iter().any(|cell| {
                let there = self.cells.leaves_of(swap.chain, swap.level, cell);
                there.start < leaves.end && leaves.start < there.end
            })
        };
        self.placement.leaves().any(|leaf| leaves.contains(&leaf)) || self.swaps.iter().any(swapped)
    }
}

/// Whether what is promised in a cell may be exchanged. `harms`: for something bad.
fn may_take(cells: &Cells, policy: &Policy, cell: (usize, usize, u32), harms: bool) -> bool {
    let (chain, level, cell) = cell;
    cells.is_movable(chain, level, cell)
        && (policy.first_come || !harms || cells.quotas_in(chain, level, cell).is_empty())
}

/// Some cells of a level all of whose leaves are idle, on machines without guaranteed gangs.
fn idle_cells(cells: &Cells, chain: usize, level: usize) -> Vec<u32> {
    let quiet = &cells.chains[chain].quiet;
    let frame = cells.frame_of(chain);
    let size = frame.shape.size[level];
    let root = frame.domains.root;
    if level > frame.bin {
        let rank = frame
            .domains
            .ranks
            .iter()
            .position(|rank| rank.level == level);
        let Some(rank) = rank else {
            return Vec::new();
        };
        let first = frame.domains.ranks[rank].first;
        let full = quiet
            .ranked(rank, frame.bin_size)
            .range((size / frame.bin_size, 0)..);
        return full
            .take(at(CANDIDATES))
            .map(|entry| entry.1 - first)
            .collect();
    }
    let mut found = Vec::new();
    for class in frame.classes.order(size) {
        for bin in quiet.bins_of_class(root, *class, CANDIDATES) {
            let inner = 0..frame.bin_size / size;
            let ones = crate::index::ones(size);
            let whole = |cell: &u32| quiet.mask(at(bin)) >> (cell * size) & ones == ones;
            found.extend(
                inner
                    .filter(whole)
                    .map(|cell| bin * (frame.bin_size / size) + cell),
            );
        }
        if small(found.len()) >= CANDIDATES {
            break;
        }
    }
    found
}

/// A cell of a level on good hardware without guaranteed gangs that may take the place of a bad
/// one: an idle one first.
fn good_cell(
    cells: &Cells,
    policy: &Policy,
    (chain, level): (usize, usize),
    taken: &[Swap],
) -> Option<u32> {
    let fresh = |cell: &u32| {
        let used = |swap: &&Swap| swap.level == level && (swap.a == *cell || swap.b == *cell);
        !taken.iter().any(|swap| used(&swap))
            && may_take(cells, policy, (chain, level, *cell), true)
    };
    let idle = idle_cells(cells, chain, level).into_iter().find(fresh);
    idle.or_else(|| {
        let all = 0..cells.chains[chain].shape.count(level);
        let mut good = all.filter(|cell| {
            let mut leaves = cells.leaves_of(chain, level, *cell);
            leaves.all(|leaf| cells.usable(leaf) && !cells.is_guaranteed(leaf))
        });
        good.find(fresh)
    })
}

/// Exchanges that bring a pool's unused quota cells off bad hardware.
fn pool_repairs(cells: &Cells, pool: u32, policy: &Policy) -> Vec<Swap> {
    let pool = &cells.pools[at(pool)];
    let mut swaps: Vec<Swap> = Vec::new();
    if !pool.pinned.is_empty() || cells.chains[pool.chain].bad == 0 {
        return swaps;
    }
    let mut bad: Vec<u32> = pool.quotas.clone();
    bad.retain(|quota| {
        let quota = &cells.quotas[at(*quota)];
        quota.bad > 0 && quota.guaranteed == 0
    });
    // Larger cells first: smaller ones find places that no larger one could use.
    bad.sort_by_key(|quota| std::cmp::Reverse(cells.quotas[at(*quota)].level));
    for number in bad {
        let quota = &cells.quotas[at(number)];
        if let Some(cell) = good_cell(cells, policy, (pool.chain, quota.level), &swaps) {
            let swap = Swap {
                chain: pool.chain,
                level: quota.level,
                a: quota.cell,
                b: cell,
            };
            if !swaps.iter().any(|other| overlap(cells, other, &swap)) {
                swaps.push(swap);
            }
        }
    }
    swaps
}

fn overlap(cells: &Cells, a: &Swap, b: &Swap) -> bool {
    let sides =
        |swap: &Swap| [swap.a, swap.b].map(|cell| cells.leaves_of(swap.chain, swap.level, cell));
    let (a, b) = (sides(a), sides(b));
    let meet = |x: &std::ops::Range<Leaf>| b.iter().any(|y| x.start < y.end && y.start < x.end);
    a.iter().any(meet)
}

/// Exchanges of unused quota cells on bad hardware for good cells that nobody was promised, and
/// of those that can go back to where they were bound first; to be applied one by one as
/// [`Swapped`](crate::cells::Event::Swapped).
pub fn repairs(cells: &Cells) -> Vec<Swap> {
    let policy = Policy::default();
    let mut all: Vec<Swap> = Vec::new();
    for pool in 0..small(cells.pools.len()) {
        for swap in pool_repairs(cells, pool, &policy) {
            if !all.iter().any(|other| overlap(cells, other, &swap)) {
                all.push(swap);
            }
        }
    }
    let away = cells.chains.iter().flat_map(|chain| &chain.away);
    for swap in away.filter_map(|number| cells.way_home(*number)) {
        if !all.iter().any(|other| overlap(cells, other, &swap)) {
            all.push(swap);
        }
    }
    all
}

/// The gang within its pool once bad unused cells are exchanged for good ones.
pub(super) fn repaired(cells: &Cells, pool: u32, need: &Need, policy: &Policy) -> Option<Decision> {
    let swaps = pool_repairs(cells, pool, policy);
    if swaps.is_empty() {
        return None;
    }
    let chain = &cells.chains[cells.pools[at(pool)].chain];
    let pool = Room::claimable(cells, pool);
    let mut view = pool.view.clone();
    for swap in &swaps {
        for leaf in cells.leaves_of(swap.chain, swap.level, swap.a) {
            view.set_leaf(leaf - chain.leaf_base, false);
        }
        for leaf in cells.leaves_of(swap.chain, swap.level, swap.b) {
            view.set_leaf(leaf - chain.leaf_base, true);
        }
    }
    view.settle();
    let room = Room {
        view: &view,
        leaf_base: chain.leaf_base,
    };
    let placement = placement(&[room], &fit(&view, need)?);
    let used = |swap: &Swap| {
        let leaves = cells.leaves_of(swap.chain, swap.level, swap.b);
        placement.leaves().any(|leaf| leaves.contains(&leaf))
    };
    let swaps = swaps.into_iter().filter(used).collect();
    let grant = Grant {
        placement,
        swaps,
        demoted: Vec::new(),
    };
    Some(finish(cells, grant, Vec::new()))
}
