//! Where the fewest leaves have to come free for a gang that waits, by looking at every bin.
//!
//! Exact for pods that are alike, near to each other or not. For pods of several sizes a greedy
//! choice is improved by a search that is exact within its budget of steps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use muster_model::cluster_spec::Level;

use super::near::{PodBatch, parts};
use super::need::Need;
use crate::gang::{Leaf, Placement};
use crate::index::{ChainRacks, NearPart, UnevenGroups, ViewFrame, at, ones};

/// Steps of the search for pods of several sizes.
const STEPS_MAX: u32 = 20_000;

/// The leaves that a gang may wait for, by bin.
#[derive(Clone, Debug)]
pub(crate) struct WaitableLeaves {
    pub(crate) frame: Arc<ViewFrame>,
    /// Where the machines stand, if racks are told.
    pub(crate) racks: Option<Arc<ChainRacks>>,
    pub(crate) leaf_base: Leaf,
    /// Those it could have now.
    pub(crate) free: Vec<u128>,
    /// Those that have to come free first.
    pub(crate) busy: Vec<u128>,
}

/// Some leaves of a bin.
#[derive(Clone, Copy, Debug)]
struct Unit {
    bin: usize,
    mask: u128,
}

/// How many leaves are missing, and what each pod takes.
type Choice = (u32, Vec<Unit>);

impl WaitableLeaves {
    /// How many leaves have to come free, and where the gang would go.
    pub(crate) fn cheapest(mut self, need: &Need) -> Option<(u32, Placement)> {
        let mut pods = vec![Vec::new(); need.sizes.len()];
        let mut missing = 0;
        for part in parts(need) {
            let (short, units) = self.choose(need, &part)?;
            missing += short;
            for (pod, unit) in part.pods.iter().zip(units) {
                pods[*pod] = self.take(unit, need.sizes[*pod]);
            }
        }
        Some((missing, Placement { pods }))
    }

    fn choose(&self, need: &Need, part: &PodBatch) -> Option<Choice> {
        let (n, k) = (part.pods.len(), part.size);
        let Some(level) = part.level else {
            return self.anywhere(need, &part.pods);
        };
        if let (Level::Rack, Some(racks)) = (level, &self.racks) {
            let racks = racks.bins(&self.frame).into_values();
            let choices = racks.filter_map(|bins| {
                let bins = bins.into_iter().map(at);
                self.greedy(self.whole(bins), n, k)
            });
            return choices.min_by_key(|choice| choice.0);
        }
        let own = match self.frame.shape.near_part(level)? {
            NearPart::Cells(own) => own,
            NearPart::Groups(_, groups) => return self.greedy(self.in_groups(groups), n, k),
        };
        if level.is_inside_node() {
            return self.greedy(self.inside(own.min(self.frame.bin)), n, k);
        }
        if own <= self.frame.bin {
            return self.in_one_bin(n, k);
        }
        let size = self.frame.shape.size[own] / self.frame.bin_size;
        let cells = 0..self.frame.bins / size;
        let choices = cells.filter_map(|cell| {
            let bins = at(cell * size)..at((cell + 1) * size);
            self.greedy(self.whole(bins), n, k)
        });
        choices.min_by_key(|choice| choice.0)
    }

    fn whole<I: Iterator<Item = usize>>(&self, bins: I) -> impl Iterator<Item = Unit> + use<I> {
        let mask = ones(self.frame.bin_size);
        bins.map(move |bin| Unit { bin, mask })
    }

    /// The cells of a level inside the bins.
    fn inside(&self, level: usize) -> impl Iterator<Item = Unit> + use<> {
        let (outer, own) = (self.frame.bin_size, self.frame.shape.size[level]);
        let cells = (0..at(self.frame.bins)).flat_map(move |bin| {
            let starts = (0..outer / own).map(move |cell| cell * own);
            starts.map(move |start| (bin, start))
        });
        cells.map(move |(bin, start)| Unit {
            bin,
            mask: ones(own) << start,
        })
    }

    /// The groups of an uneven level inside the bins.
    fn in_groups(&self, groups: &UnevenGroups) -> impl Iterator<Item = Unit> {
        (0..self.frame.bins).flat_map(move |bin| {
            let parts = groups
                .ranges()
                .filter_map(move |it| self.frame.group_in_bin(bin, it));
            parts.map(move |(low, count)| Unit {
                bin: at(bin),
                mask: ones(count) << low,
            })
        })
    }

    fn free(&self, unit: Unit) -> u32 {
        (self.free[unit.bin] & unit.mask).count_ones()
    }

    fn busy(&self, unit: Unit) -> u32 {
        (self.busy[unit.bin] & unit.mask).count_ones()
    }

    /// All pods in one bin.
    fn in_one_bin(&self, n: usize, k: u32) -> Option<Choice> {
        let all = u32::try_from(n).ok()?.checked_mul(k)?;
        let (short, units) = self.greedy(self.whole(0..at(self.frame.bins)), 1, all)?;
        Some((short, vec![*units.first()?; n]))
    }

    /// `n` pods of `k` leaves each, each where the fewest are missing for it.
    fn greedy(&self, units: impl Iterator<Item = Unit>, n: usize, k: u32) -> Option<Choice> {
        let units: Vec<Unit> = units.collect();
        let mut left: Vec<(u32, u32)> = units
            .iter()
            .map(|unit| (self.free(*unit), self.busy(*unit)))
            .collect();
        let short = |left: (u32, u32)| (left.0 + left.1 >= k).then(|| k.saturating_sub(left.0));
        let all = left.iter().enumerate();
        let mut heap: BinaryHeap<Reverse<(u32, usize)>> = all
            .filter_map(|(number, left)| Some(Reverse((short(*left)?, number))))
            .collect();
        let (mut missing, mut chosen) = (0, Vec::new());
        for _ in 0..n {
            let Reverse((next, number)) = heap.pop()?;
            missing += next;
            chosen.push(units[number]);
            left[number] = after(left[number], k);
            heap.extend(short(left[number]).map(|short| Reverse((short, number))));
        }
        Some((missing, chosen))
    }

    /// Pods that need not be near to each other, of any sizes.
    fn anywhere(&self, need: &Need, pods: &[usize]) -> Option<Choice> {
        let sizes: Vec<u32> = pods.iter().map(|pod| need.sizes[*pod]).collect();
        let bins = || self.whole(0..at(self.frame.bins));
        if sizes.iter().all(|size| Some(size) == sizes.first()) {
            return self.greedy(bins(), sizes.len(), *sizes.first()?);
        }
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        order.sort_by_key(|pod| Reverse(sizes[*pod]));
        let sorted: Vec<u32> = order.iter().map(|pod| sizes[*pod]).collect();
        let mut stock: BTreeMap<(u32, u32), Vec<Unit>> = BTreeMap::new();
        for unit in bins() {
            let kind = (self.free(unit), self.busy(unit));
            stock.entry(kind).or_default().push(unit);
        }
        let (missing, kinds) = BinSearch::new(&stock, &sorted).best()?;
        let units = realise(stock, &sorted, kinds)?;
        let mut chosen = vec![None; sizes.len()];
        for (pod, unit) in order.into_iter().zip(units) {
            chosen[pod] = Some(unit);
        }
        Some((missing, chosen.into_iter().collect::<Option<_>>()?))
    }

    /// Takes the leaves of a pod: free ones first.
    fn take(&mut self, unit: Unit, size: u32) -> Vec<Leaf> {
        let first = self.leaf_base + self.frame.bin_size * crate::index::small(unit.bin);
        let mut leaves = Vec::new();
        for masks in [&mut self.free, &mut self.busy] {
            let mask = &mut masks[unit.bin];
            while *mask & unit.mask != 0 && leaves.len() < at(size) {
                let leaf = (*mask & unit.mask).trailing_zeros();
                leaves.push(first + leaf);
                *mask &= !(1 << leaf);
            }
        }
        leaves
    }
}

/// What is left of free and busy leaves after a pod took its own.
fn after((free, busy): (u32, u32), size: u32) -> (u32, u32) {
    let taken = free.min(size);
    (free - taken, busy - (size - taken))
}

/// What is left of free and busy leaves in a bin.
type Kind = (u32, u32);

/// A search over how many bins are of which kind.
struct BinSearch<'a> {
    sizes: &'a [u32],
    bins: BTreeMap<Kind, usize>,
    /// What each pod so far found in its bin.
    chosen: Vec<Kind>,
    best: Option<(u32, Vec<Kind>)>,
    steps: u32,
}

impl<'a> BinSearch<'a> {
    fn new(stock: &BTreeMap<Kind, Vec<Unit>>, sizes: &'a [u32]) -> Self {
        Self {
            sizes,
            bins: stock.iter().map(|(k, units)| (*k, units.len())).collect(),
            chosen: Vec::new(),
            best: None,
            steps: STEPS_MAX,
        }
    }

    fn best(mut self) -> Option<(u32, Vec<Kind>)> {
        self.place(0);
        self.best
    }

    /// Tries the bins in which the fewest leaves are missing first, so the first way that is
    /// found is the greedy one.
    fn place(&mut self, missing: u32) {
        if self.best.as_ref().is_some_and(|best| best.0 <= missing) {
            return;
        }
        let Some(size) = self.sizes.get(self.chosen.len()).copied() else {
            self.best = Some((missing, self.chosen.clone()));
            return;
        };
        let fits = |kind: &Kind| kind.0 + kind.1 >= size;
        let kinds = self.bins.iter().filter(|entry| *entry.1 > 0);
        let mut kinds: Vec<Kind> = kinds.map(|entry| *entry.0).filter(fits).collect();
        kinds.sort_by_key(|kind| (size.saturating_sub(kind.0), *kind));
        for kind in kinds {
            if self.steps == 0 {
                return;
            }
            self.steps -= 1;
            self.shift(kind, after(kind, size));
            self.chosen.push(kind);
            self.place(missing + size.saturating_sub(kind.0));
            self.chosen.pop();
            self.shift(after(kind, size), kind);
        }
    }

    /// A bin becomes one of another kind.
    fn shift(&mut self, from: Kind, to: Kind) {
        if let Some(count) = self.bins.get_mut(&from) {
            *count -= 1;
        }
        *self.bins.entry(to).or_default() += 1;
    }
}

/// The bins that were meant: any of that kind will do.
fn realise(
    mut stock: BTreeMap<Kind, Vec<Unit>>,
    sizes: &[u32],
    kinds: Vec<Kind>,
) -> Option<Vec<Unit>> {
    let mut chosen = Vec::new();
    for (size, kind) in sizes.iter().zip(kinds) {
        let unit = stock.get_mut(&kind)?.pop()?;
        stock.entry(after(kind, *size)).or_default().push(unit);
        chosen.push(unit);
    }
    Some(chosen)
}
