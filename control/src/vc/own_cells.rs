//! The leaf cells that the virtual cluster is bound to, by its own log.
//!
//! The `cluster` group binds cells; the virtual cluster has them once its own log says so, and until its
//! own log says that they are released. So whoever leads it places within what it was promised without
//! asking anybody, and nothing is placed on what somebody else may be bound to by then.

use muster_model::launch::TaskPlacement;
use serde::{Deserialize, Serialize};

use super::entry::{Placed, VcApplied, VcRejection};
use super::{Current, VcState};
use crate::bound::BoundLeaves;

/// What a virtual cluster is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCells {
    version: u64,
    held: BoundLeaves,
    released: BoundLeaves,
}

impl OwnCells {
    /// The place of the entry of the `cluster` group by which it was told last; 0: never.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// What it may place on.
    pub const fn held(&self) -> &BoundLeaves {
        &self.held
    }

    /// What it has released and the `cluster` group may not have taken back yet.
    pub const fn released(&self) -> &BoundLeaves {
        &self.released
    }

    /// Whether it has nothing to learn from what the `cluster` group says that it is bound to.
    pub fn is_as(&self, bound: &BoundLeaves) -> bool {
        let mut all = self.held.clone();
        all.extend(&self.released);
        all == *bound
    }

    /// What was released stays so until it is bound again, in another epoch.
    fn told(&mut self, version: u64, bound: &BoundLeaves) {
        self.version = version;
        self.released = self.released.kept_of(bound);
        self.held = bound.without(&self.released);
    }
}

impl VcState {
    /// What the virtual cluster is bound to.
    pub const fn own_cells(&self) -> &OwnCells {
        &self.own_cells
    }

    /// What of these cells placed gangs have that nobody else may evict.
    pub(crate) fn in_use(&self, cells: &BoundLeaves) -> BoundLeaves {
        let promised = |current: &Current<'_>| !current.job.accepted.spec.is_opportunistic();
        let mut used = BoundLeaves::default();
        for current in self.live().filter(promised) {
            let tasks = current.job.attempt.tasks_of(current.gang);
            for place in tasks.filter_map(|task| task.live()) {
                for leaf in &place.leaves {
                    if let Some(epoch) = cells.epoch_of(&place.node, *leaf) {
                        used.put(&place.node, *leaf, epoch);
                    }
                }
            }
        }
        used
    }

    pub(super) fn bind(
        &mut self,
        version: u64,
        bound: &BoundLeaves,
    ) -> Result<VcApplied, VcRejection> {
        if version <= self.own_cells.version {
            return Err(VcRejection::OldBinding(version));
        }
        if let Some(problem) = bound.problem() {
            return Err(VcRejection::Cells(problem));
        }
        self.own_cells.told(version, bound);
        Ok(VcApplied::Cells)
    }

    pub(super) fn release(&mut self, cells: &BoundLeaves) -> Result<VcApplied, VcRejection> {
        if let Some(problem) = cells.problem() {
            return Err(VcRejection::Cells(problem));
        }
        if self.own_cells.held.kept_of(cells) != *cells {
            return Err(VcRejection::Cells("they are not its own".to_owned()));
        }
        if !self.in_use(cells).is_empty() {
            return Err(VcRejection::Cells(
                "a gang that was placed has some".to_owned(),
            ));
        }
        let own = &mut self.own_cells;
        own.held = own.held.without(cells);
        own.released.extend(cells);
        Ok(VcApplied::Cells)
    }

    /// Whether all that is to be within its cells is.
    pub(super) fn is_within(&self, placed: &Placed) -> bool {
        let is_held = |member: &TaskPlacement| {
            let mut leaves = member.leaves.iter();
            leaves.all(|leaf| self.own_cells.held.epoch_of(&member.node, *leaf).is_some())
        };
        !placed.is_within || placed.members.iter().all(is_held)
    }
}
