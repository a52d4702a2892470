//! Sets of free leaves that are searched by descending a tree instead of by walking the nodes.
//!
//! A [`LeafView`] is one such set over one chain: which leaves some kind of gang may use. Its leaves
//! come in **bins** (a pod lies within one bin: a machine, or a quota cell smaller than one);
//! above the bins lies a tree of **domains** (rack, row, ..., root), each with a histogram of
//! its bins by **class**. A change touches one bin and its ancestors.

mod classes;
mod domains;
mod frame;
mod pick;
mod racks;
mod view;

pub(crate) use domains::Domains;
pub(crate) use frame::{NearPart, Shape, UnevenGroups, ViewFrame, ones};
pub(crate) use pick::pick;
pub(crate) use racks::ChainRacks;
pub(crate) use view::LeafView;

/// No domain, holder, claim or quota.
pub(crate) const NONE: u32 = u32::MAX;

/// Most leaves of one machine: their free set is one machine word.
pub(crate) const BIN_LEAVES_MAX: u32 = 128;

/// Widens an id for indexing.
pub(crate) const fn at(id: u32) -> usize {
    id as usize
}

/// Narrows a count that a checked limit keeps small.
pub(crate) fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
