//! Everything by trying every placement.

use muster_model::cluster_spec::Level;

use super::*;
use crate::cells::{AllocationMode, PlacedGang};
use crate::gang::Leaf;

/// A pod that needs a place: its gang, its member, its leaves.
#[derive(Clone, Copy)]
struct Pod<'a> {
    gang: &'a Gang,
    member: usize,
}

/// A cluster of one chain of machines of 4 in pairs, all of it promised.
pub(super) struct Brute<'a> {
    pub(super) cells: &'a Cells,
    pub(super) gang: &'a Gang,
}

/// What a leaf costs; none: it cannot be had.
type Cost<'a> = &'a dyn Fn(Leaf) -> Option<u32>;
/// The same for a gang.
type CostFor<'a> = &'a dyn Fn(&Gang, Leaf) -> Option<u32>;

impl Brute<'_> {
    pub(super) fn own(&self, gang: &Gang, leaf: Leaf) -> bool {
        gang.is_opportunistic() || self.cells.is_promised(gang, leaf)
    }

    fn stays(&self, running: &PlacedGang, now: Time, frees_fixed: bool) -> bool {
        let below = running.gang.vc == self.gang.vc && running.gang.priority < self.gang.priority;
        let fixed = running.gang.fixed_until.is_some_and(|until| until > now) && !frees_fixed;
        match running.mode {
            AllocationMode::Opportunistic => self.gang.is_opportunistic(),
            AllocationMode::Guaranteed => !below || fixed,
            AllocationMode::Preempting => !below,
        }
    }

    /// Whether a leaf is held by who need not go, at a time by which those have ended who said so.
    pub(super) fn is_held(&self, leaf: Leaf, now: Time, (at, frees_fixed): (Time, bool)) -> bool {
        let holder = self.cells.holder(leaf);
        holder.is_some_and(|running| {
            let ended = running
                .gang
                .ends_by
                .is_some_and(|end| now < end && end <= at);
            !ended && self.stays(running, at, frees_fixed)
        })
    }

    pub(super) fn fits(&self, gang: &Gang, leaf: &dyn Fn(Leaf) -> bool) -> bool {
        self.cheapest(&[gang], &|_, l| leaf(l).then_some(0))
            .is_some()
    }

    /// The least sum of costs of a placement of all the gangs. Costs are told gang and leaf.
    pub(super) fn cheapest(&self, gangs: &[&Gang], cost: CostFor<'_>) -> Option<u32> {
        let mut pods = Vec::new();
        for gang in gangs {
            for (member, asked) in gang.members.iter().enumerate() {
                pods.extend((0..asked.pods).map(|_| Pod { gang, member }));
            }
        }
        self.place(&pods, 0, (&mut Vec::new(), cost))
    }

    fn place(
        &self,
        pods: &[Pod<'_>],
        taken: u32,
        (masks, cost): (&mut Vec<u32>, CostFor<'_>),
    ) -> Option<u32> {
        let Some(pod) = pods.get(masks.len()) else {
            return Some(0);
        };
        let mut best: Option<u32> = None;
        let leaves = self.cells.leaf_count();
        for mask in masks_of(leaves, pod.gang.members[pod.member].leaves) {
            let price = |leaf: Leaf| cost(pod.gang, leaf);
            let own = if mask & taken == 0 {
                sum(mask, &price)
            } else {
                None
            };
            let Some(own) = own.filter(|own| best.is_none_or(|best| *own < best)) else {
                continue;
            };
            if !is_near(pods, masks, mask) {
                continue;
            }
            masks.push(mask);
            let rest = self.place(pods, taken | mask, (masks, cost));
            masks.pop();
            if let Some(all) = rest.map(|rest| rest + own) {
                best = Some(best.map_or(all, |best| best.min(all)));
            }
            if best == Some(0) {
                break;
            }
        }
        best
    }
}

/// Every choice of `size` leaves of one machine.
fn masks_of(leaves: u32, size: u32) -> impl Iterator<Item = u32> {
    (0..leaves / 4).flat_map(move |node| {
        let inner = (1..16u32).filter(move |mask| mask.count_ones() == size);
        inner.map(move |mask| mask << (node * 4))
    })
}

fn sum(mask: u32, cost: Cost<'_>) -> Option<u32> {
    let leaves = (0..32).filter(|leaf| mask >> leaf & 1 == 1);
    leaves.map(cost).sum()
}

/// Whether the next pod is as near to those before it as its member requires.
fn is_near(pods: &[Pod<'_>], masks: &[u32], mask: u32) -> bool {
    let pod = pods[masks.len()];
    let near = pod.gang.members[pod.member]
        .near
        .filter(|near| near.required);
    let Some(near) = near else {
        return true;
    };
    if near.level == Level::Pcie {
        let pairs = (0..16).filter(|pair| mask >> (2 * pair) & 3 != 0);
        return pairs.count() == 1;
    }
    let node = |mask: u32| mask.trailing_zeros() / 4;
    pods.iter().zip(masks).all(|(other, other_mask)| {
        let same = other.gang.id == pod.gang.id && other.member == pod.member;
        !same || node(*other_mask) == node(mask)
    })
}
