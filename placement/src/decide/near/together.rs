//! Pods all of which lie in one cell of a machine or more.

use crate::decide::fit::{fill, into_bin, single_bins};
use crate::decide::need::{Need, Spot};
use crate::index::{LeafView, at};

/// `n` pods of `k` leaves each in one cell of a level that is at least a bin: of those that hold
/// them the one with the least to spare.
pub(super) fn fit(view: &LeafView, level: usize, n: u32, k: u32) -> Option<Vec<Spot>> {
    if level <= view.frame.bin {
        return in_one_bin(view, &Need::uniform(at(n), k));
    }
    let ranks = &view.frame.domains.ranks;
    let rank = ranks.iter().position(|rank| rank.level == level)?;
    // They are filed by how many pods of at most that size they hold: never by too few.
    let filed = view.ranked(rank, k).range((n, 0)..);
    let holding = filed.filter(|(_, domain)| view.capacity(*domain, k) >= n);
    let best = holding.min_by_key(|(_, domain)| view.capacity(*domain, k))?;
    fill(view, best.1, n, k)
}

fn in_one_bin(view: &LeafView, need: &Need) -> Option<Vec<Spot>> {
    let bin = single_bins(view, need, 1);
    into_bin(view, *bin.first()?, need)
}
