//! Pods each of which lies in one cell inside a machine.

use std::borrow::Cow;

use super::level_in;
use super::parts::parts;
use crate::decide::fit::split;
use crate::decide::need::{Need, Spot};
use crate::index::{LeafView, at, ones, pick};

/// A view whose bins are the cells of a level that have room for a pod.
#[derive(Debug)]
pub(super) struct InnerView<'a> {
    pub(super) view: Cow<'a, LeafView>,
    /// Leaves of a bin of the view it was made from, and of its own.
    outer: u32,
    own: u32,
}

impl<'a> InnerView<'a> {
    /// None if there is no such cell. Takes time in proportion to the machines.
    pub(super) fn new(view: &'a LeafView, level: usize, k: u32) -> Option<Self> {
        let frame = &view.frame;
        let own = frame.shape.size[level];
        if level >= frame.bin {
            // Each of its bins lies in one such cell.
            return Some(Self {
                view: Cow::Borrowed(view),
                outer: frame.bin_size,
                own: frame.bin_size,
            });
        }
        if own < k {
            return None;
        }
        let mut inside = LeafView::new(&frame.within(level));
        let cells = frame.bin_size / own;
        for bin in 0..at(frame.bins) {
            let free = view.mask(bin);
            if free.count_ones() < k {
                continue;
            }
            for cell in 0..cells {
                let mask = free >> (cell * own) & ones(own);
                if mask.count_ones() >= k {
                    inside.set(bin * at(cells) + at(cell), mask);
                }
            }
        }
        inside.settle();
        Some(Self {
            view: Cow::Owned(inside),
            outer: frame.bin_size,
            own,
        })
    }

    /// The same leaves in the view it was made from.
    pub(super) fn spot(&self, spot: &Spot) -> Spot {
        let first = spot.bin * self.own;
        Spot {
            view: spot.view,
            bin: first / self.outer,
            mask: spot.mask << (first % self.outer),
        }
    }

    pub(super) fn spots(&self, spots: &[Spot]) -> Vec<Spot> {
        spots.iter().map(|spot| self.spot(spot)).collect()
    }
}

/// The whole gang in one bin.
pub(crate) fn into_bin(view: &LeafView, bin: u32, need: &Need) -> Option<Vec<Spot>> {
    let frame = &view.frame;
    let inner = &frame.shape.size[..=frame.bin];
    let mut free = view.mask(at(bin));
    let mut masks = vec![0; need.sizes.len()];
    let mut others = Vec::new();
    for part in parts(need) {
        let own = match part.level {
            Some(level) => level_in(&frame.shape, level)?,
            None => frame.bin,
        };
        // Whoever asks for a bin or more has it in any bin.
        if own >= frame.bin {
            others.extend(part.pods);
            continue;
        }
        for pod in part.pods {
            let mask = lowest(inner, free, part.size, own)?;
            masks[pod] = mask;
            free &= !mask;
        }
    }
    others.sort_by_key(|pod| std::cmp::Reverse(need.sizes[*pod]));
    let sizes: Vec<u32> = others.iter().map(|pod| need.sizes[*pod]).collect();
    for (pod, mask) in others.iter().zip(split(frame, free, &sizes)?) {
        masks[*pod] = mask;
    }
    let spot = |mask| Spot { view: 0, bin, mask };
    Some(masks.into_iter().map(spot).collect())
}

/// The nearest leaves for a pod; none if they do not lie in one cell of the level. Taken again
/// and again, as many pods find a place as can.
fn lowest(inner: &[u32], free: u128, k: u32, level: usize) -> Option<u128> {
    let mask = pick(inner, free, k)?;
    let cell = ones(inner[level]) << (mask.trailing_zeros() / inner[level] * inner[level]);
    (mask & !cell == 0).then_some(mask)
}
