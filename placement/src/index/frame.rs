//! The regular tree of a chain, and what all views over it share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use muster_model::cluster_spec::{Level, UnevenLevel};

use super::classes::Classes;
use super::{Domains, at, small};

/// A chain's tree. All cells of a level have the same shape, so a cell is (level, index) and
/// every step up or down is a division or a multiplication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Type names by level, the leaf's first.
    pub(crate) types: Vec<String>,
    /// Leaves of one cell, by level.
    pub(crate) size: Vec<u32>,
    /// What each level is to those who ask for nearness.
    pub(crate) levels: Vec<Option<Level>>,
    /// The level of a machine.
    pub(crate) node: usize,
    /// How many top cells.
    pub(crate) tops: u32,
    /// Levels of a machine whose groups differ in size.
    pub(crate) uneven: Vec<UnevenGroups>,
}

/// A level of a machine whose groups differ in size: runs of its leaves, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnevenGroups {
    pub(crate) level: Level,
    /// The first leaf of each group on the machine, and at the end the number of its leaves.
    pub(crate) starts: Vec<u32>,
}

impl UnevenGroups {
    pub(crate) fn new(level: &UnevenLevel) -> Self {
        let mut end = 0_u32;
        let ends = level.sizes.iter().map(|size| {
            end = end.saturating_add(*size);
            end
        });
        let starts = std::iter::once(0).chain(ends).collect();
        Self {
            level: level.level,
            starts,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        small(self.starts.len()).saturating_sub(1)
    }

    /// The first leaf and the one past the last, of each group.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (u32, u32)> {
        self.starts.windows(2).map(|pair| (pair[0], pair[1]))
    }

    /// Leaves of the largest group.
    pub(crate) fn largest(&self) -> u32 {
        let sizes = self.ranges().map(|(start, end)| end - start);
        sizes.max().unwrap_or(0)
    }

    /// The group of a machine's leaf.
    pub(crate) fn group_of(&self, leaf: u32) -> u32 {
        let started = self.starts.partition_point(|start| *start <= leaf);
        small(started).saturating_sub(1)
    }
}

/// What of a chain is a level to those who ask for nearness.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NearPart<'a> {
    /// The cells of this level of the tree.
    Cells(usize),
    /// Groups of each machine, by their number among the uneven levels.
    Groups(usize, &'a UnevenGroups),
}

impl Shape {
    pub(crate) fn top(&self) -> usize {
        self.size.len() - 1
    }

    pub(crate) fn leaves(&self) -> u32 {
        self.tops * self.size[self.top()]
    }

    pub(crate) fn count(&self, level: usize) -> u32 {
        self.leaves() / self.size[level]
    }

    pub(crate) fn level_of(&self, cell_type: &str) -> Option<usize> {
        self.types.iter().position(|name| name == cell_type)
    }

    /// What counts as one of the cluster's levels; the widest if there are several.
    pub(crate) fn near_part(&self, level: Level) -> Option<NearPart<'_>> {
        if level == Level::Node {
            return Some(NearPart::Cells(self.node));
        }
        let cells = self.levels.iter().rposition(|own| *own == Some(level));
        let uneven = self.uneven.iter().enumerate();
        let groups = uneven.filter(|(_, groups)| groups.level == level);
        let widest = groups.max_by_key(|(_, groups)| groups.largest());
        match (cells, widest) {
            (Some(cells), Some((_, groups))) if self.size[cells] >= groups.largest() => {
                Some(NearPart::Cells(cells))
            }
            (_, Some((number, groups))) => Some(NearPart::Groups(number, groups)),
            (cells, None) => cells.map(NearPart::Cells),
        }
    }

    /// The cell or group of a level that a leaf of the chain is in: equal for two leaves if they
    /// are in one.
    pub(crate) fn near_cell(&self, part: NearPart<'_>, leaf: u32) -> u32 {
        match part {
            NearPart::Cells(level) => leaf / self.size[level],
            NearPart::Groups(_, groups) => {
                let machine = self.size[self.node];
                leaf / machine * groups.count() + groups.group_of(leaf % machine)
            }
        }
    }

    /// Children of one cell of the level.
    pub(crate) fn fan(&self, level: usize) -> u32 {
        self.size[level] / self.size[level - 1]
    }
}

/// What all views with the same bins share.
pub(crate) struct ViewFrame {
    pub(crate) shape: Shape,
    /// The level of a bin.
    pub(crate) bin: usize,
    /// Leaves of a bin.
    pub(crate) bin_size: u32,
    pub(crate) bins: u32,
    pub(crate) domains: Domains,
    pub(crate) classes: Classes,
    /// The same chain in smaller bins, by level, made when first asked for.
    within: Vec<OnceLock<Arc<Self>>>,
    /// The same chain with the groups of each uneven level as bins, made when first asked for.
    in_groups: Vec<OnceLock<Arc<Self>>>,
}

/// All else follows from these, and is large.
impl fmt::Debug for ViewFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("shape", &self.shape)
            .field("bin", &self.bin)
            .finish_non_exhaustive()
    }
}

impl ViewFrame {
    pub(crate) fn new(shape: &Shape, bin: usize) -> Self {
        Self {
            bin,
            bin_size: shape.size[bin],
            bins: shape.count(bin),
            domains: Domains::new(shape, bin),
            classes: Classes::new(&shape.size[..=bin]),
            within: (0..bin).map(|_| OnceLock::new()).collect(),
            in_groups: shape.uneven.iter().map(|_| OnceLock::new()).collect(),
            shape: shape.clone(),
        }
    }

    /// The frame of the same chain whose bins are the cells of a level below its own bins.
    pub(crate) fn within(&self, level: usize) -> Arc<Self> {
        let made = || Arc::new(Self::new(&self.shape, level));
        match self.within.get(level) {
            Some(kept) => Arc::clone(kept.get_or_init(made)),
            None => made(),
        }
    }

    /// A frame with as many bins in each of its own bins as the machine has groups of an uneven
    /// level, all as large as the largest. What a group does not have of its bin is never free.
    pub(crate) fn in_groups(&self, number: usize, groups: &UnevenGroups) -> Arc<Self> {
        let made = || Arc::new(Self::new(&self.shape_of_groups(groups), 1));
        match self.in_groups.get(number) {
            Some(kept) => Arc::clone(kept.get_or_init(made)),
            None => made(),
        }
    }

    fn shape_of_groups(&self, groups: &UnevenGroups) -> Shape {
        let own = groups.largest().min(self.bin_size);
        let all = own * groups.count();
        let outer = self.shape.size[self.bin..].iter();
        let outer = outer.map(|size| size / self.bin_size * all);
        let size: Vec<u32> = [1, own].into_iter().chain(outer).collect();
        Shape {
            types: vec![String::new(); size.len()],
            levels: vec![None; size.len()],
            size,
            node: 2,
            tops: self.shape.tops,
            uneven: Vec::new(),
        }
    }

    /// The part of a machine's group that is in a bin: its first bit there and how many.
    pub(crate) fn group_in_bin(&self, bin: u32, (start, end): (u32, u32)) -> Option<(u32, u32)> {
        let machine = self.shape.size[self.shape.node];
        let first = (bin * self.bin_size) % machine;
        let (low, high) = (start.max(first), end.min(first + self.bin_size));
        (low < high).then(|| (low - first, high - low))
    }

    /// The real domains of the lowest rank below a domain, as a range; none in a flat chain.
    pub(crate) fn racks_of(&self, domain: u32) -> Option<std::ops::Range<u32>> {
        let racks = self.domains.ranks.first()?;
        if domain == self.domains.root {
            return Some(racks.first..racks.first + racks.count);
        }
        let rank = self.domains.rank_of(domain)?;
        let ratio = self.shape.size[rank.level] / self.shape.size[racks.level];
        let first = racks.first + (domain - rank.first) * ratio;
        Some(first..first + ratio)
    }

    /// The bin of a chain's leaf and its bit in the bin's mask.
    pub(crate) fn bin_of(&self, leaf: u32) -> (usize, u128) {
        (at(leaf / self.bin_size), 1 << (leaf % self.bin_size))
    }
}

/// A mask with the lowest `count` bits set.
pub(crate) fn ones(count: u32) -> u128 {
    1u128.checked_shl(count).map_or(u128::MAX, |bit| bit - 1)
}
