//! What every virtual cluster is bound to.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::VcName;
use serde::{Deserialize, Serialize};

use crate::bound::BoundLeaves;
use crate::cluster::ClusterState;

/// What every virtual cluster is bound to, as of an entry of the `cluster` group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings {
    /// The place of the entry that changed any of it last.
    pub version: u64,
    /// By virtual cluster.
    pub cells: BTreeMap<VcName, BoundLeaves>,
    /// Those with gangs that wait for cells which they were promised and have not got.
    pub waiting: BTreeSet<VcName>,
    /// Those that are to say what they have by their own logs: what is said of them here may be old.
    pub unheard: BTreeSet<VcName>,
}

impl Bindings {
    /// What the `cluster` group says, if that is newer than what is known.
    pub fn of(state: &ClusterState, known: u64) -> Option<Self> {
        let all = state.bound().map(|(vc, cells)| (vc.clone(), cells.clone()));
        (state.bound_at() > known).then(|| Self {
            version: state.bound_at(),
            cells: all.collect(),
            waiting: state.waiting().clone(),
            unheard: state.unheard().clone(),
        })
    }
}
