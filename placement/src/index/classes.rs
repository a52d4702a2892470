//! Bins that serve equally well are one class.
//!
//! For bins of up to [`EXACT_LEAVES_MAX`] leaves, a class is the most free leaves that any one
//! cell of each level inside the bin has, so that the class alone tells how near to each other
//! `k` leaves can be. For larger bins it is the number of free leaves only.

use std::collections::BTreeMap;

use super::frame::ones;
use super::small;

/// Largest bin whose masks are all told apart.
const EXACT_LEAVES_MAX: u32 = 16;

/// The classes of bins of one shape.
pub(crate) struct Classes {
    /// Free leaves, by class.
    pub(crate) free: Vec<u32>,
    /// By mask, in exact tables.
    by_mask: Vec<u16>,
    /// By number of leaves wanted: the classes that have them, best first.
    order: Vec<Vec<u16>>,
    /// The pod sizes whose capacity is kept ready: powers of two and the whole bin.
    pub(crate) sizes: Vec<u32>,
}

impl Classes {
    /// For bins of `size.last()` leaves whose inner cells have `size` leaves by level.
    pub(crate) fn new(size: &[u32]) -> Self {
        let leaves = size.last().copied().unwrap_or(1);
        let mut sizes: Vec<u32> = (0..8).map(|bit| 1 << bit).filter(|s| *s < leaves).collect();
        sizes.push(leaves);
        let (profiles, by_mask) = if leaves <= EXACT_LEAVES_MAX {
            exact(size, leaves)
        } else {
            ((0..=leaves).map(|free| vec![free]).collect(), Vec::new())
        };
        let wanted = 0..=leaves;
        Self {
            free: profiles
                .iter()
                .map(|p| p.last().copied().unwrap_or(0))
                .collect(),
            order: wanted.map(|k| order(&profiles, k)).collect(),
            by_mask,
            sizes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn of(&self, mask: u128) -> u16 {
        match usize::try_from(mask)
            .ok()
            .and_then(|mask| self.by_mask.get(mask))
        {
            Some(class) => *class,
            None => u16::try_from(mask.count_ones()).unwrap_or(0),
        }
    }

    /// Classes with at least `k` free leaves: those that have them nearest to each other first,
    /// then those with the fewest left over.
    pub(crate) fn order(&self, k: u32) -> &[u16] {
        self.order.get(super::at(k)).map_or(&[], |order| order)
    }

    /// The largest kept size that is at most `k`, as its position.
    pub(crate) fn size_below(&self, k: u32) -> usize {
        self.sizes.iter().rposition(|size| *size <= k).unwrap_or(0)
    }
}

fn exact(size: &[u32], leaves: u32) -> (Vec<Vec<u32>>, Vec<u16>) {
    let mut known: BTreeMap<Vec<u32>, u16> = BTreeMap::new();
    let mut profiles = Vec::new();
    let mut by_mask = Vec::new();
    for mask in 0..1u128 << leaves {
        let profile: Vec<u32> = size.iter().map(|s| most_within(mask, *s, leaves)).collect();
        let class = *known.entry(profile).or_insert_with_key(|profile| {
            profiles.push(profile.clone());
            u16::try_from(profiles.len() - 1).unwrap_or(0)
        });
        by_mask.push(class);
    }
    (profiles, by_mask)
}

/// The most free leaves of any one inner cell of `size` leaves.
fn most_within(mask: u128, size: u32, leaves: u32) -> u32 {
    let cells = 0..leaves / size;
    cells
        .map(|cell| (mask >> (cell * size) & ones(size)).count_ones())
        .max()
        .unwrap_or(0)
}

fn order(profiles: &[Vec<u32>], k: u32) -> Vec<u16> {
    let mut order: Vec<(usize, u32, u16)> = Vec::new();
    for (class, profile) in profiles.iter().enumerate() {
        let Some(level) = profile.iter().position(|most| *most >= k.max(1)) else {
            continue;
        };
        let free = profile.last().copied().unwrap_or(0);
        order.push((level, free, u16::try_from(class).unwrap_or(u16::MAX)));
    }
    order.sort_unstable();
    debug_assert!(small(order.len()) <= u32::from(u16::MAX));
    order.into_iter().map(|(_, _, class)| class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_pair_comes_before_two_leaves_apart() {
        let classes = Classes::new(&[1, 2, 4]);
        let first = classes.order(2)[0];
        assert_eq!(first, classes.of(0b0011));
        assert_eq!(first, classes.of(0b1100));
        assert_ne!(first, classes.of(0b0101));
        assert_eq!(classes.free[usize::from(first)], 2);
    }

    #[test]
    fn large_bins_are_told_apart_by_their_free_leaves() {
        let classes = Classes::new(&[1, 128]);
        assert_eq!(classes.of(u128::MAX), 128);
        assert_eq!(classes.order(100).len(), 29);
        assert_eq!(classes.sizes, [1, 2, 4, 8, 16, 32, 64, 128]);
    }
}
