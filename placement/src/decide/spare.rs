//! Stepping aside: quota cells that somebody is on are exchanged for idle ones.

use super::DecisionPolicy;
use super::case::GangCase;
use super::limits::{When, placement_suits};
use super::near::stays;
use crate::cells::{Cells, Quota};
use crate::gang::{GangNumber, Grant, Leaf, Placement, Swap};
use crate::index::{NONE, at, small};

/// Cells of the index that are tried for one exchange.
const CANDIDATES: u32 = 32;

/// A placement while its cells are being exchanged.
pub(super) struct Spare<'a> {
    case: &'a GangCase<'a>,
    cells: &'a Cells,
    placement: Placement,
    swaps: Vec<Swap>,
    /// Gangs that will be opportunistic when the exchanges are made.
    demoted: Vec<GangNumber>,
}

impl<'a> Spare<'a> {
    pub(super) fn new(
        case: &'a GangCase<'a>,
        placement: Placement,
        demoted: &[GangNumber],
    ) -> Self {
        Self {
            case,
            cells: case.cells,
            placement,
            swaps: Vec::new(),
            demoted: demoted.to_vec(),
        }
    }

    pub(super) fn into_grant(self) -> Grant {
        Grant {
            placement: self.placement,
            swaps: self.swaps,
            demoted: self.demoted,
        }
    }

    /// Exchanges every quota cell of the placement that somebody is on for an idle one, where
    /// there is one.
    pub(super) fn sidestep(&mut self) {
        let occupied = |leaf: &Leaf| self.cells.leaves.holder[at(*leaf)] != NONE;
        let quotas = self.placement.leaves().filter(occupied);
        let mut quotas: Vec<u32> = quotas
            .map(|leaf| self.cells.leaves.quota[at(leaf)])
            .collect();
        quotas.sort_unstable();
        quotas.dedup();
        for quota in quotas {
            self.sidestep_one(quota);
        }
    }

    fn sidestep_one(&mut self, number: u32) {
        let quota = &self.cells.quotas[at(number)];
        let pool = &self.cells.pools[at(quota.pool)];
        let leaves = self.cells.bound(quota);
        let whole = |pod: &Vec<Leaf>| {
            let inside = pod.iter().filter(|leaf| leaves.contains(leaf)).count();
            inside == 0 || inside == pod.len()
        };
        // A pod that lies across quota cells would be torn apart.
        let moves = pool.pinned.is_empty() && self.placement.pods.iter().all(whole);
        if !moves || !leaves.clone().all(|leaf| self.is_left(leaf)) {
            return;
        }
        let harms = leaves.clone().any(|leaf| !self.cells.usable(leaf));
        let Some((cell, moved)) = self.aside(quota, harms) else {
            return;
        };
        self.placement = moved;
        self.swaps.push(Swap {
            chain: pool.chain,
            level: quota.level,
            a: quota.cell,
            b: cell,
        });
    }

    /// Whether no guaranteed gang will be on the leaf.
    fn is_left(&self, leaf: Leaf) -> bool {
        let holder = self.cells.holder(leaf);
        let demoted = holder.is_some_and(|running| self.demoted.contains(&running.gang.id));
        self.cells.leaves.claim[at(leaf)] == NONE && (demoted || !self.cells.is_guaranteed(leaf))
    }

    /// A wholly idle cell whose promises, if any, may go where the exchange takes them, and the
    /// placement then.
    fn aside(&self, quota: &Quota, harms: bool) -> Option<(u32, Placement)> {
        let (chain, level) = (self.cells.pools[at(quota.pool)].chain, quota.level);
        let idle = idle_cells(self.cells, chain, level).into_iter();
        let mut left = idle.filter(|cell| {
            let swap = Swap {
                chain,
                level,
                a: quota.cell,
                b: *cell,
            };
            self.cells.is_one_owners(swap)
                && may_take(
                    self.cells,
                    &DecisionPolicy::default(),
                    (chain, level, *cell),
                    harms,
                )
                && !self.touches(self.cells.leaves_of(chain, level, *cell))
        });
        left.find_map(|cell| {
            let moved = self.moved(quota, self.cells.leaves_of(chain, level, cell).start);
            self.is_as_good(&moved).then_some((cell, moved))
        })
    }

    /// The placement with a quota cell elsewhere.
    fn moved(&self, quota: &Quota, there: Leaf) -> Placement {
        let leaves = self.cells.bound(quota);
        let mut moved = self.placement.clone();
        for leaf in moved.pods.iter_mut().flatten() {
            if leaves.contains(leaf) {
                *leaf = *leaf - leaves.start + there;
            }
        }
        moved
    }

    /// Whether nobody has to go for his share of a machine there, and pods that must be near to
    /// each other still are.
    fn is_as_good(&self, moved: &Placement) -> bool {
        let need = &self.case.need;
        (need.shares.is_empty() || placement_suits(self.case, moved, When::Now))
            && (need.wishes.is_empty() || stays(self.cells, need, moved))
    }

    fn touches(&self, leaves: std::ops::Range<Leaf>) -> bool {
        let swapped = |swap: &Swap| {
            [swap.a, swap.b].into_iter().any(|cell| {
                let there = self.cells.leaves_of(swap.chain, swap.level, cell);
                there.start < leaves.end && leaves.start < there.end
            })
        };
        self.placement.leaves().any(|leaf| leaves.contains(&leaf)) || self.swaps.iter().any(swapped)
    }
}

/// Whether what is promised in a cell may be exchanged. `harms`: for something bad.
pub(super) fn may_take(
    cells: &Cells,
    policy: &DecisionPolicy,
    cell: (usize, usize, u32),
    harms: bool,
) -> bool {
    let (chain, level, cell) = cell;
    cells.is_movable(chain, level, cell)
        && (policy.first_come || !harms || cells.quotas_in(chain, level, cell).is_empty())
}

/// Some cells of a level all of whose leaves are idle, on machines without guaranteed gangs.
pub(super) fn idle_cells(cells: &Cells, chain: usize, level: usize) -> Vec<u32> {
    let quiet = &cells.chains[chain].quiet;
    let frame = cells.frame_of(chain);
    let size = frame.shape.size[level];
    let root = frame.domains.root;
    if level > frame.bin {
        let rank = frame
            .domains
            .ranks
            .iter()
            .position(|rank| rank.level == level);
        let Some(rank) = rank else {
            return Vec::new();
        };
        let first = frame.domains.ranks[rank].first;
        let full = quiet
            .ranked(rank, frame.bin_size)
            .range((size / frame.bin_size, 0)..);
        return full
            .take(at(CANDIDATES))
            .map(|entry| entry.1 - first)
            .collect();
    }
    let mut found = Vec::new();
    for class in frame.classes.order(size) {
        for bin in quiet.bins_of_class(root, *class, CANDIDATES) {
            let inner = 0..frame.bin_size / size;
            let ones = crate::index::ones(size);
            let whole = |cell: &u32| quiet.mask(at(bin)) >> (cell * size) & ones == ones;
            found.extend(
                inner
                    .filter(whole)
                    .map(|cell| bin * (frame.bin_size / size) + cell),
            );
        }
        if small(found.len()) >= CANDIDATES {
            break;
        }
    }
    found
}
