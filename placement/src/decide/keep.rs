//! What is kept for a gang that was passed too often: leaves that come free there stay free.
//!
//! Nothing remembers what was kept. It is found anew every time, where the fewest leaves have to
//! come free, and nobody else starts there meanwhile, so that number can only fall.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::need::Need;
use super::refuse;
use crate::cells::{Cells, Mode};
use crate::gang::{Gang, Leaf, Placement};
use crate::index::{NONE, at, small};

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
    let need = Need::new(gang.sizes());
    let pools = refuse::pools(cells, gang);
    let ways = pools.iter().filter_map(|pool| in_pool(cells, *pool, &need));
    ways.min_by_key(|way| way.0).map(|way| way.1)
}

/// How many leaves still have to come free in a pool, and where the gang would go.
fn in_pool(cells: &Cells, pool: u32, need: &Need) -> Option<(u32, Placement)> {
    let mut bins = bins(cells, pool);
    let mut pods = vec![Vec::new(); need.sizes.len()];
    let mut missing = 0;
    let order = need.largest_first();
    for alike in order.chunk_by(|a, b| need.sizes[*a] == need.sizes[*b]) {
        let size = need.sizes[*alike.first()?];
        let mut heap: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
        let all = bins.iter().enumerate();
        heap.extend(all.filter_map(|(number, bin)| Some(Reverse((bin.missing(size)?, number)))));
        for pod in alike {
            let Reverse((short, number)) = heap.pop()?;
            missing += short;
            pods[*pod] = bins[number].take(size);
            heap.extend(
                bins[number]
                    .missing(size)
                    .map(|short| Reverse((short, number))),
            );
        }
    }
    Some((missing, Placement { pods }))
}

fn bins(cells: &Cells, number: u32) -> Vec<Bin> {
    let pool = &cells.pools[at(number)];
    let base = cells.chains[pool.chain].leaf_base;
    let frame = &pool.claimable.frame;
    let bin = |bin: u32| {
        let first = base + bin * frame.bin_size;
        let busy = (0..frame.bin_size).filter(|leaf| comes_free(cells, number, first + leaf));
        Bin {
            first,
            free: pool.claimable.mask(at(bin)),
            busy: busy.fold(0, |mask, leaf| mask | 1 << leaf),
        }
    };
    (0..frame.bins).map(bin).collect()
}

/// Whether only a guaranteed gang keeps the leaf from the pool's gangs.
fn comes_free(cells: &Cells, pool: u32, leaf: Leaf) -> bool {
    let holder = cells.leaves.holder[at(leaf)];
    let held = cells
        .gangs
        .get(holder)
        .is_some_and(|g| g.mode == Mode::Guaranteed);
    let promised = cells.quota_of(leaf).is_some_and(|quota| quota.pool == pool);
    held && promised && cells.usable(leaf) && cells.leaves.claim[at(leaf)] == NONE
}

impl Bin {
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
