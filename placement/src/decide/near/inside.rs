//! Pods each of which lies in one cell inside a machine.

use std::borrow::Cow;

use muster_model::cluster_spec::Level;

use super::parts::parts;
use crate::decide::fit::split;
use crate::decide::need::{Need, Spot};
use crate::index::{LeafView, NearPart, UnevenGroups, at, ones, pick};

/// A view whose bins are the cells of a level that have room for a pod, or the groups of an uneven
/// one.
#[derive(Debug)]
pub(super) struct InnerView<'a> {
    pub(super) view: Cow<'a, LeafView>,
    bins: InnerBins<'a>,
}

/// How its bins lie in those of the view that it was made from.
#[derive(Debug)]
enum InnerBins<'a> {
    /// Leaves of a bin of the outer view, and of its own.
    Cells {
        outer: u32,
        own: u32,
    },
    Groups(&'a LeafView, &'a UnevenGroups),
}

impl<'a> InnerView<'a> {
    /// None if there is no such cell. Takes time in proportion to the machines.
    pub(super) fn new(view: &'a LeafView, part: NearPart<'a>, k: u32) -> Option<Self> {
        match part {
            NearPart::Cells(level) => Self::of_cells(view, level, k),
            NearPart::Groups(number, groups) => Self::of_groups(view, (number, groups), k),
        }
    }

    fn of_groups(
        view: &'a LeafView,
        (number, groups): (usize, &'a UnevenGroups),
        k: u32,
    ) -> Option<Self> {
        if groups.largest() < k {
            return None;
        }
        let mut inside = LeafView::new(&view.frame.in_groups(number, groups));
        for bin in 0..view.frame.bins {
            let free = view.mask(at(bin));
            for (group, range) in (0..).zip(groups.ranges()) {
                let Some((low, count)) = view.frame.group_in_bin(bin, range) else {
                    continue;
                };
                let mask = free >> low & ones(count);
                if mask.count_ones() >= k {
                    inside.set(at(bin * groups.count() + group), mask);
                }
            }
        }
        inside.settle();
        Some(Self {
            view: Cow::Owned(inside),
            bins: InnerBins::Groups(view, groups),
        })
    }

    fn of_cells(view: &'a LeafView, level: usize, k: u32) -> Option<Self> {
        let frame = &view.frame;
        let own = frame.shape.size[level];
        if level >= frame.bin {
            // Each of its bins lies in one such cell.
            return Some(Self {
                view: Cow::Borrowed(view),
                bins: InnerBins::Cells {
                    outer: frame.bin_size,
                    own: frame.bin_size,
                },
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
            bins: InnerBins::Cells {
                outer: frame.bin_size,
                own,
            },
        })
    }

    /// The same leaves in the view it was made from.
    pub(super) fn spot(&self, spot: &Spot) -> Spot {
        let (bin, low) = match self.bins {
            InnerBins::Cells { outer, own } => {
                let first = spot.bin * own;
                (first / outer, first % outer)
            }
            InnerBins::Groups(outer, groups) => {
                let (bin, group) = (spot.bin / groups.count(), spot.bin % groups.count());
                let range = groups.ranges().nth(at(group)).unwrap_or_default();
                let part = outer.frame.group_in_bin(bin, range);
                (bin, part.map_or(0, |(low, _)| low))
            }
        };
        Spot {
            view: spot.view,
            bin,
            mask: spot.mask << low,
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
            // All of a bin is in one rack.
            Some(Level::Rack) if view.racks.is_some() => NearPart::Cells(frame.bin),
            Some(level) => frame.shape.near_part(level)?,
            None => NearPart::Cells(frame.bin),
        };
        // Whoever asks for a bin or more has it in any bin.
        if matches!(own, NearPart::Cells(level) if level >= frame.bin) {
            others.extend(part.pods);
            continue;
        }
        for pod in part.pods {
            let mask = match own {
                NearPart::Cells(level) => lowest(inner, free, part.size, level)?,
                NearPart::Groups(_, groups) => {
                    let parts = groups.ranges().filter_map(|it| frame.group_in_bin(bin, it));
                    let parts = parts.map(|(low, count)| ones(count) << low);
                    in_one(inner, free, part.size, parts)?
                }
            };
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

/// The nearest leaves for a pod in one of several parts of a bin: in the one with the fewest to
/// spare.
fn in_one(inner: &[u32], free: u128, k: u32, parts: impl Iterator<Item = u128>) -> Option<u128> {
    let free = parts.map(|part| free & part);
    let fits = free.filter(|free| free.count_ones() >= k);
    pick(inner, fits.min_by_key(|free| free.count_ones())?, k)
}

/// The nearest leaves for a pod; none if they do not lie in one cell of the level. Taken again
/// and again, as many pods find a place as can.
fn lowest(inner: &[u32], free: u128, k: u32, level: usize) -> Option<u128> {
    let mask = pick(inner, free, k)?;
    let cell = ones(inner[level]) << (mask.trailing_zeros() / inner[level] * inner[level]);
    (mask & !cell == 0).then_some(mask)
}
