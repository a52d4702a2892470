//! The cells of the virtual cluster that is led, and which of its jobs is on which.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{JobKey, VcName};
use muster_model::sight::JobSight;
use muster_model::vc_cells::{CellUser, UsedDevices, VcCells};
use muster_placement::cells::Cells;
use muster_placement::gang::Leaf;

use crate::coordinator::inventory::Inventory;
use crate::vc::VcState;

/// All that has to do with whose cells are whose.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator) struct CellLister<'a> {
    /// The virtual cluster that is led.
    pub(in crate::coordinator) vc: &'a VcName,
    /// Which jobs may be named.
    pub(in crate::coordinator) sight: &'a JobSight,
    pub(in crate::coordinator) state: &'a VcState,
    pub(in crate::coordinator) inventory: &'a Inventory,
}

impl CellLister<'_> {
    /// What is promised, and what jobs have. Empty while nothing is known to place on.
    pub(in crate::coordinator) fn list(&self) -> VcCells {
        let Some(cells) = self.inventory.cells() else {
            return VcCells::default();
        };
        VcCells {
            pools: cells.promised_cells(self.vc.as_str()),
            users: self.users(cells),
        }
    }

    /// Jobs of this virtual cluster, those that are not seen as one, by the name of the job.
    fn users(&self, cells: &Cells) -> Vec<CellUser> {
        let mut leaves: BTreeMap<Option<JobKey>, Vec<Leaf>> = BTreeMap::new();
        let own = cells
            .gangs()
            .filter(|(gang, ..)| gang.vc == self.vc.as_str());
        for (gang, placement, _) in own {
            let Some((vc, key)) = self.inventory.job_of(self.state, gang.id) else {
                continue;
            };
            let key = self.sight.sees(vc, &key.user).then(|| key.clone());
            let held = placement.leaves();
            let held = held.filter(|leaf| cells.held_by(*leaf) == Some(gang.id));
            leaves.entry(key).or_default().extend(held);
        }
        let user = |(job, leaves)| self.user(cells, job, leaves);
        leaves.into_iter().map(user).collect()
    }

    fn user(&self, cells: &Cells, job: Option<JobKey>, leaves: Vec<Leaf>) -> CellUser {
        let mut places: BTreeMap<(&str, &str), BTreeSet<u32>> = BTreeMap::new();
        let mut borrowed = 0;
        for leaf in leaves.into_iter().filter(|leaf| !cells.is_plain(*leaf)) {
            let (node, index) = cells.address(leaf);
            let of_node = places.entry((node, cells.leaf_type(leaf))).or_default();
            of_node.insert(index);
            borrowed += u32::from(!cells.is_held_by(leaf, self.vc.as_str()));
        }
        let places = places
            .into_iter()
            .map(|((node, leaf_type), indices)| UsedDevices {
                node: node.to_owned(),
                leaf_type: leaf_type.to_owned(),
                indices,
            });
        CellUser {
            job,
            places: places.collect(),
            borrowed,
        }
    }
}
