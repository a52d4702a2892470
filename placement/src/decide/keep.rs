//! What is kept for a gang that was passed too often: leaves that come free there stay free.
//!
//! Nothing remembers what was kept. It is found anew every time, where the fewest leaves have to
//! come free, and nobody else starts there meanwhile, so that number can only fall.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use super::cheapest::WaitableLeaves;
use super::need::Need;
use super::refuse;
use crate::cells::{AllocationMode, Cells};
use crate::gang::{Gang, Leaf, Placement};
use crate::index::{LeafView, NONE, at, small};

/// The leaves of one bin, as they are for a gang that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    first: Leaf,
    /// Nobody guaranteed is on them.
    free: u128,
    /// They come free when guaranteed gangs end.
    busy: u128,
}

/// Where the gang could go with the fewest leaves still to come free; none if nowhere, or if it
/// has no quota to wait for.
pub(crate) fn keep(cells: &Cells, gang: &Gang) -> Option<Placement> {
    if gang.is_opportunistic() {
        return None;
    }
    let need = Need::of(gang);
    let pools = refuse::pools(cells, gang);
    let ways = pools
        .iter()
        .filter_map(|pool| match need.wishes.is_empty() {
            true => in_pool(cells, *pool, &need),
            false => ground(cells, *pool).cheapest(&need),
        });
    ways.min_by_key(|way| way.0).map(|way| way.1)
}

/// Every bin of a pool, for gangs whose pods must be near.
fn ground(cells: &Cells, number: u32) -> WaitableLeaves {
    let pool = &cells.pools[at(number)];
    let frame = Arc::clone(&pool.claimable.frame);
    let bins: Vec<Bin> = (0..frame.bins)
        .map(|bin| Bin::new(cells, number, bin))
        .collect();
    WaitableLeaves {
        leaf_base: cells.chains[pool.chain].leaf_base,
        free: bins.iter().map(|bin| bin.free).collect(),
        busy: bins.iter().map(|bin| bin.busy).collect(),
        racks: pool.claimable.racks.clone(),
        frame,
    }
}

/// How many leaves still have to come free in a pool, and where the gang would go.
fn in_pool(cells: &Cells, pool: u32, need: &Need) -> Option<(u32, Placement)> {
    let mut search = KeepSearch {
        cells,
        pool,
        open: BTreeMap::new(),
        missing: 0,
    };
    let mut pods = vec![Vec::new(); need.sizes.len()];
    let order = need.largest_first();
    for alike in order.chunk_by(|a, b| need.sizes[*a] == need.sizes[*b]) {
        search.place(alike, need.sizes[*alike.first()?], &mut pods)?;
    }
    Some((search.missing, Placement { pods }))
}

/// A search in one pool. It looks at no more bins than it needs.
struct KeepSearch<'a> {
    cells: &'a Cells,
    pool: u32,
    /// Bins in use, with what is left of them.
    open: BTreeMap<u32, Bin>,
    missing: u32,
}

impl KeepSearch<'_> {
    /// Places pods of one size, each where the fewest leaves have to come free for it. In a bin
    /// that number only grows from pod to pod, so no choice is better for all of them.
    fn place(&mut self, pods: &[usize], size: u32, placed: &mut [Vec<Leaf>]) -> Option<()> {
        let (cells, pool) = (self.cells, self.pool);
        let known = self.open.iter();
        let short = known.filter_map(|(number, bin)| Some((bin.missing(size)?, *number)));
        let mut heap: BinaryHeap<Reverse<(u32, u32)>> = short.map(Reverse).collect();
        let mut seen: BTreeSet<u32> = self.open.keys().copied().collect();
        let bins = by_missing(cells, pool, size, small(pods.len()));
        let bins = bins.filter(|number| seen.insert(*number));
        let fresh = bins.filter_map(|number| {
            let bin = Bin::new(cells, pool, number);
            Some((bin.missing(size)?, number, bin))
        });
        let mut fresh = fresh.peekable();
        for pod in pods {
            let known = heap.peek().map(|Reverse((short, _))| *short);
            let is_better = |new: &(u32, u32, Bin)| known.is_none_or(|known| new.0 < known);
            if let Some((short, number, bin)) = fresh.next_if(is_better) {
                self.open.insert(number, bin);
                heap.push(Reverse((short, number)));
            }
            let Reverse((short, number)) = heap.pop()?;
            let bin = self.open.get_mut(&number)?;
            self.missing += short;
            placed[*pod] = bin.take(size);
            let next = bin.missing(size);
            heap.extend(next.map(|short| Reverse((short, number))));
        }
        Some(())
    }
}

/// The bins of a pool, found as they are asked for: those first in which the fewest leaves are
/// missing for a pod, of them those that have the fewest to spare. `count` is about how many will
/// be asked for. A bin may come again.
fn by_missing(
    cells: &Cells,
    number: u32,
    size: u32,
    count: u32,
) -> impl Iterator<Item = u32> + use<'_> {
    let pool = &cells.pools[at(number)];
    let free = pool.claimable.frame.classes.free.iter();
    let classes = free.zip(0..).filter(|(free, _)| **free > 0);
    let mut classes: Vec<(u32, u32, u16)> = classes
        .map(|(free, class)| (size.saturating_sub(*free), *free, class))
        .collect();
    classes.sort_unstable();
    let some_free = classes
        .into_iter()
        .flat_map(move |(_, _, class)| of_class(&pool.claimable, class, count));
    let none_free = pool.quotas.iter().flat_map(|quota| {
        let quota = &cells.quotas[at(*quota)];
        let frame = &pool.claimable.frame;
        let size = frame.shape.size[quota.level];
        let first = quota.cell * size / frame.bin_size;
        first..first + (size / frame.bin_size).max(1)
    });
    some_free.chain(none_free.filter(|bin| pool.claimable.mask(at(*bin)) == 0))
}

/// The bins of a class, `count` of them at first, then twice as many every time.
fn of_class(view: &LeafView, class: u16, count: u32) -> impl Iterator<Item = u32> + use<'_> {
    let root = view.frame.domains.root;
    let mut given = 0;
    let mut limit = count.max(1);
    let batches = std::iter::from_fn(move || {
        let bins = view.bins_of_class(root, class, limit);
        let new = bins.get(given..).unwrap_or_default().to_vec();
        given = bins.len();
        limit = limit.saturating_mul(2);
        (!new.is_empty()).then_some(new)
    });
    batches.flatten()
}

/// Whether only a guaranteed gang keeps the leaf from the pool's gangs.
fn comes_free(cells: &Cells, pool: u32, leaf: Leaf) -> bool {
    let holder = cells.leaves.holder[at(leaf)];
    let held = cells
        .gangs
        .get(holder)
        .is_some_and(|g| g.mode == AllocationMode::Guaranteed);
    let promised = cells.quota_of(leaf).is_some_and(|quota| quota.pool == pool);
    held && promised && cells.usable(leaf) && cells.leaves.claim[at(leaf)] == NONE
}

impl Bin {
    fn new(cells: &Cells, number: u32, bin: u32) -> Self {
        let pool = &cells.pools[at(number)];
        let frame = &pool.claimable.frame;
        let first = cells.chains[pool.chain].leaf_base + bin * frame.bin_size;
        let busy = (0..frame.bin_size).filter(|leaf| comes_free(cells, number, first + leaf));
        Self {
            first,
            free: pool.claimable.mask(at(bin)),
            busy: busy.fold(0, |mask, leaf| mask | 1 << leaf),
        }
    }

    /// How many leaves have to come free for a pod; none if it never fits.
    fn missing(&self, size: u32) -> Option<u32> {
        let (free, busy) = (self.free.count_ones(), self.busy.count_ones());
        (free + busy >= size).then(|| size.saturating_sub(free))
    }

    /// Takes the leaves of a pod: free ones first.
    fn take(&mut self, size: u32) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        for mask in [&mut self.free, &mut self.busy] {
            while *mask != 0 && small(leaves.len()) < size {
                leaves.push(self.first + mask.trailing_zeros());
                *mask &= *mask - 1;
            }
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::spec;
    use crate::cells::{Bins, CellEvent};
    use crate::gang::{GangMember, GangNumber, Grant};
    use crate::random::SplitMix64;

    fn gang(random: &mut SplitMix64, id: u64) -> Gang {
        let leaves = *random.one_of(&[1, 2, 4, 8]).unwrap();
        let pods = 1 + u32::try_from(random.below(12)).unwrap();
        Gang {
            id: GangNumber(id),
            vc: (*random.one_of(&["A", "B", "C"]).unwrap()).to_owned(),
            members: vec![GangMember {
                pods,
                leaves,
                ..GangMember::default()
            }],
            ..Gang::default()
        }
    }

    /// What looks at few bins finds as good a place as what looks at all of them.
    #[test]
    fn no_place_is_cheaper_than_the_one_kept() {
        let mut cells = Cells::new(&spec(1024).unwrap(), Bins::default()).unwrap();
        let mut random = SplitMix64::new(5);
        let mut compared = 0;
        for id in 1..400 {
            let gang = gang(&mut random, id);
            let need = Need::of(&gang);
            for pool in refuse::pools(&cells, &gang) {
                let few = in_pool(&cells, pool, &need).map(|way| way.0);
                let all = ground(&cells, pool).cheapest(&need).map(|way| way.0);
                assert_eq!(few, all, "{gang:?}");
                compared += u32::from(few.is_some_and(|missing| missing > 0));
            }
            let Some(placement) = keep(&cells, &gang) else {
                continue;
            };
            let grant = Grant {
                placement,
                ..Grant::default()
            };
            let busy = grant.placement.leaves().any(|leaf| !cells.is_unused(leaf));
            let event = match busy {
                true => CellEvent::Preempting { gang, grant },
                false => CellEvent::Started { gang, grant },
            };
            cells.apply(event).unwrap();
            if random.percent(60) {
                let ids: Vec<GangNumber> = cells.gangs().map(|gang| gang.0.id).collect();
                let id = *random.one_of(&ids).unwrap();
                cells.apply(CellEvent::GangEnded(id)).unwrap();
            }
        }
        assert!(compared > 20, "{compared}");
    }
}
