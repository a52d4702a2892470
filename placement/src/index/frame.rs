//! The regular tree of a chain, and what all views over it share.

use std::fmt;
use std::sync::{Arc, OnceLock};

use muster_model::cluster_spec::Level;

use super::classes::Classes;
use super::{Domains, at};

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
