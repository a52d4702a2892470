//! Whether what was asked for is so.

use muster_model::cluster_spec::Level;

use crate::cells::Cells;
use crate::decide::need::{Need, Spot, Wish};
use crate::gang::{Leaf, Placement};
use crate::index::LeafView;

/// A cell of a level in one of several trees: (tree, index).
type Cell = (usize, u32);
/// Stands for a tree where racks are told: machines of several trees may stand in one.
const TOLD: usize = usize::MAX;

/// Whether spots in views are as near as they must be.
pub(crate) fn holds(views: &[&LeafView], need: &Need, spots: &[Spot]) -> bool {
    need.wishes.iter().all(|wish| {
        is_granted(wish, |pod| {
            let spot = spots[pod];
            if let (Level::Rack, Some(rack)) = (wish.level, views[spot.view].rack_of(spot.bin)) {
                return Some((TOLD, rack));
            }
            let frame = &views[spot.view].frame;
            let part = frame.shape.near_part(wish.level)?;
            let first = spot.bin * frame.bin_size + spot.mask.trailing_zeros();
            let last = spot.bin * frame.bin_size + 127 - spot.mask.leading_zeros();
            // Views of one chain have the same tree, and equal trees are told apart by views.
            let same = |view: &&LeafView| view.frame.shape == frame.shape;
            let tree = views.iter().position(same)?;
            let cell = |leaf| frame.shape.near_cell(part, leaf);
            (cell(first) == cell(last)).then_some((tree, cell(first)))
        })
    })
}

/// Whether a placement is as near as it must be.
pub(crate) fn stays(cells: &Cells, need: &Need, placement: &Placement) -> bool {
    need.wishes.iter().all(|wish| {
        is_granted(wish, |pod| {
            let leaves = &placement.pods[pod];
            let first = cell(cells, *leaves.first()?, wish)?;
            let same = |leaf: &Leaf| cell(cells, *leaf, wish) == Some(first);
            leaves.iter().all(same).then_some(first)
        })
    })
}

fn cell(cells: &Cells, leaf: Leaf, wish: &Wish) -> Option<Cell> {
    if let (Level::Rack, Some(rack)) = (wish.level, cells.rack_of(leaf)) {
        return Some((TOLD, rack));
    }
    let (chain, local) = cells.local(leaf);
    let shape = &cells.chains[chain].shape;
    let part = shape.near_part(wish.level)?;
    Some((chain, shape.near_cell(part, local)))
}

/// `cell_of` gives the cell that all leaves of a pod lie in, if they lie in one.
fn is_granted(wish: &Wish, cell_of: impl Fn(usize) -> Option<Cell>) -> bool {
    let mut cells = wish.pods.clone().map(cell_of);
    if wish.level.is_inside_node() {
        return cells.all(|cell| cell.is_some());
    }
    let first = cells.next().flatten();
    first.is_some() && cells.all(|cell| cell == first)
}
