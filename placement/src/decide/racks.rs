//! Gangs of several machines in as few racks as possible, where racks are told and not described as cells.

use std::cmp::Reverse;

use super::fit::anywhere;
use super::need::{Need, Spot};
use crate::index::{ChainRacks, LeafView, at};

/// Racks that are tried for pods of several sizes.
const CANDIDATES: usize = 8;

/// What a rack has of a view.
struct RackRoom {
    /// Pods that fit if they are alike, else leaves.
    room: u32,
    bins: Vec<u32>,
}

/// Spots in the rack that holds the gang with the least to spare, else in the fewest racks; none if what is found
/// without regard to racks is as good. For pods that are alike a rack is found whenever one holds them.
pub(super) fn fit(view: &LeafView, racks: &ChainRacks, need: &Need) -> Option<Vec<Spot>> {
    let (size, wanted) = match need.is_uniform {
        true => (*need.sizes.first()?, u32::try_from(need.sizes.len()).ok()?),
        false => (1, need.total),
    };
    let mut rooms = rooms(view, racks, size);
    rooms.sort_by_key(|rack| rack.room);
    let holding = rooms.partition_point(|rack| rack.room < wanted);
    let one = rooms[holding..].iter().take(CANDIDATES);
    let mut one = one.map(|rack| anywhere(&only(view, &[rack]), need));
    if let Some(spots) = one.find_map(|found| found) {
        return Some(spots);
    }
    anywhere(&only(view, &fewest(&rooms, wanted)?), need)
}

fn rooms(view: &LeafView, racks: &ChainRacks, size: u32) -> Vec<RackRoom> {
    let bins = racks.bins(&view.frame).into_values();
    let fit = |bin: &u32| view.mask(at(*bin)).count_ones() / size;
    let rooms = bins.map(|bins| RackRoom {
        room: bins.iter().map(fit).sum(),
        bins,
    });
    rooms.filter(|rack| rack.room > 0).collect()
}

/// The largest racks, as many as are needed, the last of them with the least to spare. `rooms`: the smallest first.
fn fewest(rooms: &[RackRoom], wanted: u32) -> Option<Vec<&RackRoom>> {
    let (mut chosen, mut left) = (Vec::new(), wanted);
    let mut rest: Vec<&RackRoom> = rooms.iter().collect();
    rest.sort_by_key(|rack| Reverse(rack.room));
    for (number, rack) in rest.iter().enumerate() {
        if rack.room >= left {
            let last = rest[number..].iter().rev().find(|rack| rack.room >= left);
            chosen.extend(last);
            return Some(chosen);
        }
        chosen.push(*rack);
        left -= rack.room;
    }
    None
}

/// The view with nothing outside of some racks, and without racks.
fn only(view: &LeafView, racks: &[&RackRoom]) -> LeafView {
    let mut inside = LeafView::new(&view.frame);
    for bin in racks.iter().flat_map(|rack| &rack.bins) {
        inside.set(at(*bin), view.mask(at(*bin)));
    }
    inside.settle();
    inside
}

#[cfg(test)]
mod tests;
