//! Which leaf cells are bound to which virtual cluster.
//!
//! A virtual cluster asks for cells that are nobody's, and gives back what it has released in its own
//! log: nothing is taken away from one that does not say so. So no leaf is bound to two at a time, and
//! whoever is bound to it next has a higher cell epoch.
//!
//! Where the cluster goes on from a copy of its log, that may miss what was bound last. What each virtual
//! cluster has by its own log counts for more: it says so first, and until all have, nothing is claimed.

use std::collections::BTreeSet;

use muster_model::id::VcName;
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::ClusterApplied;
use super::rejected::ClusterRejection;
use crate::bound::BoundLeaves;

/// Cells that are asked for at a time, at most.
pub const CLAIMS_MAX: usize = 4_096;

/// What a virtual cluster asks for and gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Cells, each to be bound as a whole or not at all. Their epochs do not count.
    pub claims: Vec<BoundLeaves>,
    /// What it has released, in the epochs in which it had it.
    pub released: BoundLeaves,
    /// Whether a gang of it waits for cells that it has not got, if that is news.
    pub waits: Option<bool>,
    /// What it has by its own log, where that is asked for.
    pub held: Option<BoundLeaves>,
}

impl Binding {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        let asks = !self.claims.is_empty() || !self.released.is_empty();
        !asks && self.waits.is_none() && self.held.is_none()
    }

    fn problem(&self) -> Option<String> {
        if self.claims.len() > CLAIMS_MAX {
            return Some(format!("more than {CLAIMS_MAX} cells are asked for"));
        }
        let mut all = self.claims.iter().chain([&self.released]).chain(&self.held);
        all.find_map(BoundLeaves::problem)
    }
}

impl ClusterState {
    /// Binds what is nobody's, after what was released has been taken back. What another virtual
    /// cluster has stays as it is.
    pub(super) fn bind(
        &mut self,
        index: u64,
        vc: &VcName,
        binding: &Binding,
    ) -> Result<ClusterApplied, ClusterRejection> {
        if !self.vcs.contains_key(vc) {
            return Err(ClusterRejection::NoVc(vc.clone()));
        }
        if let Some(problem) = binding.problem() {
            return Err(ClusterRejection::Binding(problem));
        }
        if let Some(held) = binding.held.as_ref().filter(|_| self.unheard.contains(vc)) {
            self.hear(index, vc, held);
        }
        let before = self.bound.get(vc).cloned().unwrap_or_default();
        let mut own = before.without_newer(&binding.released);
        let claims = binding.claims.iter();
        for claim in claims.filter(|_| self.unheard.is_empty()) {
            let mut others = self.bound.iter().filter(|(name, _)| *name != vc);
            if !claim.meets(&own) && !others.any(|(_, bound)| bound.meets(claim)) {
                own.extend(&claim.in_epoch(index));
            }
        }
        let waits = binding.waits.unwrap_or_else(|| self.waiting.contains(vc));
        let is_news = match waits {
            true => self.waiting.insert(vc.clone()),
            false => self.waiting.remove(vc),
        };
        if own != before || is_news {
            self.bound.insert(vc.clone(), own);
            self.bound_at = index;
        }
        Ok(ClusterApplied::Bound)
    }

    /// A virtual cluster has said what it has by its own log. Of two that have the same, for one of them has
    /// lost its last word as well, the one has it that was bound to it later.
    fn hear(&mut self, index: u64, vc: &VcName, held: &BoundLeaves) {
        self.unheard.remove(vc);
        self.bound.remove(vc);
        let is_heard = |name: &VcName| !self.unheard.contains(name);
        let heard = self.bound.iter().filter(|(name, _)| is_heard(name));
        let own = heard.fold(held.clone(), |own, (_, other)| own.without_newer(other));
        for other in self.bound.values_mut() {
            *other = other.without(&own);
        }
        self.bound.insert(vc.clone(), own);
        self.bound_at = index;
        self.raise_epochs(index);
    }

    /// These do not say what they have: what the copy knows of it holds.
    pub(super) fn stop_waiting(&mut self, index: u64, vcs: &BTreeSet<VcName>) -> ClusterApplied {
        let before = self.unheard.len();
        self.unheard.retain(|vc| !vcs.contains(vc));
        if self.unheard.len() < before {
            self.bound_at = index;
            self.raise_epochs(index);
        }
        ClusterApplied::Bound
    }

    /// Once all have been heard every cell gets a new epoch, for nodes may have heard of newer ones than
    /// those who have the cells. Before that they tell who was bound to a cell later.
    fn raise_epochs(&mut self, index: u64) {
        if self.unheard.is_empty() {
            for bound in self.bound.values_mut() {
                *bound = bound.in_epoch(index);
            }
        }
    }

    /// Those that have not said yet what they have by their own logs.
    pub const fn unheard(&self) -> &BTreeSet<VcName> {
        &self.unheard
    }

    /// What each virtual cluster is bound to.
    pub fn bound(&self) -> impl Iterator<Item = (&VcName, &BoundLeaves)> {
        self.bound.iter()
    }

    /// Those that have gangs which wait for cells that they have not got, though they were promised them.
    pub const fn waiting(&self) -> &BTreeSet<VcName> {
        &self.waiting
    }

    /// The place of the entry that changed any of that last; 0: none has.
    pub const fn bound_at(&self) -> u64 {
        self.bound_at
    }
}
