//! Gangs that were found running: a new leader makes its cells from what there is.

use std::collections::BTreeSet;

use super::reconfigure::Former;
use super::{AllocationMode, Cells, CellsError};
use crate::gang::{Gang, Leaf, Placement};

impl Cells {
    pub(super) fn adopt(&mut self, gang: Gang, placement: Placement) -> Result<(), CellsError> {
        if self.gangs.slot(gang.id).is_some() {
            return Err(CellsError::Known(gang.id));
        }
        self.check_found(&gang, &placement)?;
        // What runs is a fact; a claim is only a plan.
        let restored = self.cancel_others(&placement);
        let in_quota = !gang.is_opportunistic() && self.cover(&gang, &placement, &Former::new());
        let mode = match in_quota {
            true => AllocationMode::Guaranteed,
            false => AllocationMode::Opportunistic,
        };
        self.put(gang, placement, mode);
        self.promote_all(&restored);
        Ok(())
    }

    /// Files a gang that runs and gives it its leaves. A pod without any counts as ended.
    pub(super) fn put(&mut self, gang: Gang, placement: Placement, mode: AllocationMode) -> u32 {
        let leaves: Vec<Leaf> = placement.leaves().collect();
        let alive = placement.pods.iter().map(|pod| !pod.is_empty()).collect();
        let slot = self.insert(gang, placement, mode);
        if let Some(running) = self.gangs.get_mut(slot) {
            running.alive = alive;
        }
        for leaf in leaves {
            self.set_holder(leaf, slot);
        }
        slot
    }

    fn check_found(&self, gang: &Gang, placement: &Placement) -> Result<(), CellsError> {
        let mut seen = BTreeSet::new();
        for leaf in placement.leaves() {
            if leaf >= self.leaf_count() || !seen.insert(leaf) {
                let gang = gang.id;
                return Err(CellsError::NotPromised { gang, leaf });
            }
        }
        self.check_held(placement)?;
        let node = |leaf: Leaf| self.node_of(leaf);
        let is_torn = |pod: &Vec<Leaf>| pod.windows(2).any(|pair| node(pair[0]) != node(pair[1]));
        if placement.pods.len() as u64 != gang.pods() || placement.pods.iter().any(is_torn) {
            return Err(CellsError::Pods {
                gang: gang.id,
                asked: gang.pods(),
            });
        }
        Ok(())
    }
}
