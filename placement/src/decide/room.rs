//! From spots in views to leaves of the cluster, and who is on them.

use super::need::Spot;
use crate::cells::Cells;
use crate::gang::{GangNumber, Leaf, Placement};
use crate::index::{LeafView, at};

/// A view and the first leaf of its chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    pub(crate) view: &'a LeafView,
    pub(crate) leaf_base: Leaf,
}

impl<'a> Room<'a> {
    /// What nobody uses of a pool.
    pub(crate) fn free(cells: &'a Cells, pool: u32) -> Self {
        let pool = &cells.pools[at(pool)];
        Self {
            view: &pool.free,
            leaf_base: cells.chains[pool.chain].leaf_base,
        }
    }

    /// What no guaranteed gang uses of a pool.
    pub(crate) fn claimable(cells: &'a Cells, pool: u32) -> Self {
        let pool = &cells.pools[at(pool)];
        Self {
            view: &pool.claimable,
            leaf_base: cells.chains[pool.chain].leaf_base,
        }
    }
}

/// The leaves that spots in rooms stand for.
pub(crate) fn placement(rooms: &[Room<'_>], spots: &[Spot]) -> Placement {
    let pods = spots.iter().map(|spot| {
        let room = rooms[spot.view];
        let first = room.leaf_base + spot.bin * room.view.frame.bin_size;
        let mut leaves = Vec::with_capacity(at(spot.mask.count_ones()));
        let mut mask = spot.mask;
        while mask != 0 {
            leaves.push(first + mask.trailing_zeros());
            mask &= mask - 1;
        }
        leaves
    });
    Placement {
        pods: pods.collect(),
    }
}

/// The gangs that hold any of the leaves, by id.
pub(crate) fn holders(cells: &Cells, placement: &Placement) -> Vec<GangNumber> {
    let ids = placement.leaves().filter_map(|leaf| cells.holder(leaf));
    let mut ids: Vec<GangNumber> = ids.map(|running| running.gang.id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
