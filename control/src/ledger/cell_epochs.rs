//! In which epoch each cell of the node was asked for last, by whoever is bound to it: who was bound to
//! it before, and does not know yet that it gave it back, gets nothing of it any more.

use std::collections::BTreeMap;

use super::{Ledger, LedgerChange, record};
use crate::order::{OrderRefusal, ReserveAsk};

/// Cells whose epoch is kept, at most: more than a machine has places and devices.
const CELLS_MAX: usize = 65_536;

impl Ledger {
    /// Refuses asks for cells of which a newer epoch was heard, and for more than a node can have.
    pub(super) fn check_epochs(&self, asks: &[ReserveAsk]) -> Result<(), OrderRefusal> {
        let is_new = |(leaf, _): &(u32, u64)| !self.cell_epochs.contains_key(leaf);
        let new = asks.iter().flat_map(epochs).filter(is_new).count();
        if self.cell_epochs.len() + new > CELLS_MAX {
            let why = format!("more than {CELLS_MAX} cells are named on one node");
            return Err(OrderRefusal::NotFree(why));
        }
        let older = |(leaf, epoch): (u32, u64)| {
            let known = *self.cell_epochs.get(&leaf)?;
            (epoch < known).then_some(OrderRefusal::OldCell { leaf, epoch: known })
        };
        match asks.iter().flat_map(epochs).find_map(older) {
            Some(refusal) => Err(refusal),
            None => Ok(()),
        }
    }

    /// Notes the epochs of what is granted, for good.
    pub(super) fn note_epochs(&mut self, asks: &[ReserveAsk]) -> Option<LedgerChange> {
        let mut is_news = false;
        for (leaf, epoch) in asks.iter().flat_map(epochs) {
            is_news |= self.cell_epochs.insert(leaf, epoch) != Some(epoch);
        }
        is_news.then(|| record::put_cell_epochs(&self.cell_epochs))
    }

    /// The log that epochs are places in is another one from now on.
    pub(super) fn forget_epochs(&mut self) -> Option<LedgerChange> {
        let known = std::mem::take(&mut self.cell_epochs);
        (!known.is_empty()).then(record::delete_cell_epochs)
    }

    /// The newest epoch of each cell that was asked for.
    pub const fn cell_epochs(&self) -> &BTreeMap<u32, u64> {
        &self.cell_epochs
    }
}

fn epochs(ask: &ReserveAsk) -> impl Iterator<Item = (u32, u64)> {
    let leaves = ask.leaves.iter().copied();
    leaves.zip(ask.epochs.iter().copied())
}
