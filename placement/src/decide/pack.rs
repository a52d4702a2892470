//! Pods of several sizes into bins: two greedy tries, then an exact search.
//!
//! Bins with the same number of free leaves are alike here, so the search is over how many bins
//! have how many leaves left. It is exact within its budget of steps; beyond that a packing may
//! be missed, never a wrong one made.

use std::collections::BTreeSet;

use super::fit::split;
use super::need::{Need, Spot};
use crate::index::{LeafView, at};

/// Steps of the exact search that one decision may take.
const STEPS_MAX: u32 = 20_000;

/// Steps left.
#[derive(Debug)]
pub(crate) struct StepBudget(u32);

impl Default for StepBudget {
    fn default() -> Self {
        Self(STEPS_MAX)
    }
}

/// A bin in use: its free leaves before, and its pods.
struct OpenBin {
    free: u32,
    left: u32,
    pods: Vec<usize>,
}

/// Which new bin a greedy try opens.
#[derive(Clone, Copy)]
enum Style {
    /// One that holds all that is left if there is one, else the largest: few bins.
    Few,
    /// The one that fits the pod best: no waste.
    Tight,
}

/// Spots by pod, in bins of the domains given.
pub(crate) fn pack(
    sources: &[(&LeafView, u32)],
    need: &Need,
    budget: &mut StepBudget,
) -> Option<Vec<Spot>> {
    let order = need.largest_first();
    let stock = stock(sources, need);
    let open = greedy(&stock, need, &order, Style::Few)
        .or_else(|| greedy(&stock, need, &order, Style::Tight))
        .or_else(|| exact(&stock, need, &order, budget))?;
    realise(sources, need, &open)
}

/// How many bins have how many free leaves, by free leaves; no more than could be used.
fn stock(sources: &[(&LeafView, u32)], need: &Need) -> Vec<u32> {
    let most = u32::try_from(need.sizes.len()).unwrap_or(u32::MAX);
    let mut stock = Vec::new();
    for (view, domain) in sources {
        let classes = &view.frame.classes;
        for class in classes.order(1) {
            let free = at(classes.free[usize::from(*class)]);
            if stock.len() <= free {
                stock.resize(free + 1, 0);
            }
            stock[free] = most.min(stock[free] + view.bins_of(*domain, *class));
        }
    }
    stock
}

fn greedy(stock: &[u32], need: &Need, order: &[usize], style: Style) -> Option<Vec<OpenBin>> {
    let mut stock = stock.to_vec();
    let mut open: Vec<OpenBin> = Vec::new();
    let mut rest = need.total;
    for pod in order {
        let size = need.sizes[*pod];
        let fitting = open.iter_mut().filter(|bin| bin.left >= size);
        if let Some(bin) = fitting.min_by_key(|bin| bin.left) {
            bin.left -= size;
            bin.pods.push(*pod);
        } else {
            let free = new_bin(&stock, size, rest, style)?;
            stock[free] -= 1;
            let free = u32::try_from(free).ok()?;
            open.push(OpenBin {
                free,
                left: free - size,
                pods: vec![*pod],
            });
        }
        rest -= size;
    }
    Some(open)
}

fn new_bin(stock: &[u32], size: u32, rest: u32, style: Style) -> Option<usize> {
    let from = |least: u32| (at(least)..stock.len()).find(|free| stock[*free] > 0);
    match style {
        Style::Tight => from(size),
        Style::Few => from(rest).or_else(|| {
            let largest = (at(size)..stock.len()).rev();
            largest.into_iter().find(|free| stock[*free] > 0)
        }),
    }
}

fn exact(
    stock: &[u32],
    need: &Need,
    order: &[usize],
    budget: &mut StepBudget,
) -> Option<Vec<OpenBin>> {
    let leaves: u64 = (0..)
        .zip(stock)
        .map(|(free, count): (u64, _)| free * u64::from(*count))
        .sum();
    if leaves < u64::from(need.total) {
        return None;
    }
    let sizes: Vec<u32> = order.iter().map(|pod| need.sizes[*pod]).collect();
    let mut search = PackSearch {
        left: stock.to_vec(),
        failed: BTreeSet::new(),
        chosen: Vec::new(),
        budget,
    };
    if !search.place(&sizes) {
        return None;
    }
    // What each pod found left in its bin tells which bin it was: any with that much left.
    let mut open: Vec<OpenBin> = Vec::new();
    for (pod, found) in order.iter().zip(search.chosen) {
        let size = need.sizes[*pod];
        if let Some(bin) = open.iter_mut().find(|bin| bin.left == found) {
            bin.left -= size;
            bin.pods.push(*pod);
        } else {
            open.push(OpenBin {
                free: found,
                left: found - size,
                pods: vec![*pod],
            });
        }
    }
    Some(open)
}

struct PackSearch<'a> {
    /// Bins by leaves left.
    left: Vec<u32>,
    /// What is known to fail: (pods placed, bins by leaves left).
    failed: BTreeSet<(usize, Vec<u32>)>,
    /// What each pod so far found left in its bin.
    chosen: Vec<u32>,
    budget: &'a mut StepBudget,
}

impl PackSearch<'_> {
    fn place(&mut self, sizes: &[u32]) -> bool {
        let Some(size) = sizes.get(self.chosen.len()).copied() else {
            return true;
        };
        let state = (self.chosen.len(), self.left.clone());
        if self.budget.0 == 0 || self.failed.contains(&state) {
            return false;
        }
        self.budget.0 -= 1;
        for found in at(size)..self.left.len() {
            if self.left[found] == 0 {
                continue;
            }
            self.left[found] -= 1;
            self.left[found - at(size)] += 1;
            self.chosen.push(u32::try_from(found).unwrap_or(0));
            if self.place(sizes) {
                return true;
            }
            self.chosen.pop();
            self.left[found - at(size)] -= 1;
            self.left[found] += 1;
        }
        self.failed.insert(state);
        false
    }
}

fn realise(sources: &[(&LeafView, u32)], need: &Need, open: &[OpenBin]) -> Option<Vec<Spot>> {
    let empty = Spot {
        view: 0,
        bin: 0,
        mask: 0,
    };
    let mut spots = vec![empty; need.sizes.len()];
    let mut by_free: Vec<&OpenBin> = open.iter().collect();
    by_free.sort_by_key(|bin| bin.free);
    for alike in by_free.chunk_by(|a, b| a.free == b.free) {
        let bins = bins_with(sources, alike[0].free, alike.len())?;
        for ((number, bin), open) in bins.into_iter().zip(alike) {
            let view = sources[number].0;
            let sizes: Vec<u32> = open.pods.iter().map(|pod| need.sizes[*pod]).collect();
            let masks = split(&view.frame, view.mask(at(bin)), &sizes)?;
            for (pod, mask) in open.pods.iter().zip(masks) {
                spots[*pod] = Spot {
                    view: number,
                    bin,
                    mask,
                };
            }
        }
    }
    Some(spots)
}

/// Some bins (source, bin) that have exactly so many free leaves.
fn bins_with(sources: &[(&LeafView, u32)], free: u32, count: usize) -> Option<Vec<(usize, u32)>> {
    let mut bins = Vec::new();
    for (number, (view, domain)) in sources.iter().enumerate() {
        let classes = &view.frame.classes;
        for class in classes.order(free) {
            if classes.free[usize::from(*class)] == free && bins.len() < count {
                let left = u32::try_from(count - bins.len()).ok()?;
                let found = view.bins_of_class(*domain, *class, left);
                bins.extend(found.into_iter().map(|bin| (number, bin)));
            }
        }
    }
    (bins.len() >= count).then_some(bins)
}
