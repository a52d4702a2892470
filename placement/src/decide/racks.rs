//! Gangs of several machines in as few racks as possible, where racks are told and not described as cells.

use std::cmp::Reverse;

use muster_model::cluster_spec::Level;

use super::RoomiestRack;
use super::fit::anywhere;
use super::need::{Need, Spot};
use super::room::Room;
use crate::cells::Cells;
use crate::gang::{Gang, GangMember};
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

/// The told rack with the most room for the largest member of a gang that demands one rack; none if
/// no member does, or if the member fits.
pub(super) fn roomiest(cells: &Cells, gang: &Gang, grounds: &[Room<'_>]) -> Option<RoomiestRack> {
    let members = gang.members.iter().filter(|member| demands_rack(member));
    let member = members.max_by_key(|member| member.pods.saturating_mul(member.leaves))?;
    let all = grounds.iter().flat_map(|ground| {
        let racks = ground.view.racks.iter();
        let rooms = racks.flat_map(|racks| rooms(ground.view, racks, member.leaves));
        rooms.filter_map(|rack| Some((rack.room, name(cells, *ground, &rack)?)))
    });
    // Of several the first by name, in each plan.
    let (room_for, rack) = all.max_by_key(|(room, rack)| (*room, Reverse(*rack)))?;
    (room_for < member.pods).then(|| RoomiestRack {
        rack: rack.to_owned(),
        room_for,
        pods: member.pods,
    })
}

/// Whether all pods of a member must lie in one rack.
pub(crate) fn demands_rack(member: &GangMember) -> bool {
    let near = member.near.filter(|near| near.required);
    near.is_some_and(|near| near.level == Level::Rack)
}

/// A rack's name; none for a machine that was told none.
fn name<'a>(cells: &'a Cells, ground: Room<'_>, rack: &RackRoom) -> Option<&'a str> {
    let leaf = rack.bins.first()? * ground.view.frame.bin_size + ground.leaf_base;
    cells.rack(cells.address(leaf).0)
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
