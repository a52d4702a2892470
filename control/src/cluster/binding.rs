//! Which leaf cells are bound to which virtual cluster.
//!
//! A virtual cluster asks for cells that are nobody's, and gives back what it has released in its own
//! log: nothing is taken away from one that does not say so. So no leaf is bound to two at a time, and
//! whoever is bound to it next has a higher cell epoch.

use std::collections::BTreeSet;

use muster_model::id::VcName;
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::Applied;
use super::rejected::Rejected;
use crate::bound::Bound;

/// Cells that are asked for at a time, at most.
pub const CLAIMS_MAX: usize = 4_096;

/// What a virtual cluster asks for and gives back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Cells, each to be bound as a whole or not at all. Their epochs do not count.
    pub claims: Vec<Bound>,
    /// What it has released, in the epochs in which it had it.
    pub released: Bound,
    /// Whether a gang of it waits for cells that it has not got, if that is news.
    pub waits: Option<bool>,
}

impl Binding {
    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.released.is_empty() && self.waits.is_none()
    }

    fn problem(&self) -> Option<String> {
        if self.claims.len() > CLAIMS_MAX {
            return Some(format!("more than {CLAIMS_MAX} cells are asked for"));
        }
        let mut all = self.claims.iter().chain([&self.released]);
        all.find_map(Bound::problem)
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
    ) -> Result<Applied, Rejected> {
        if !self.vcs.contains_key(vc) {
            return Err(Rejected::NoVc(vc.clone()));
        }
        if let Some(problem) = binding.problem() {
            return Err(Rejected::Binding(problem));
        }
        let before = self.bound.get(vc).cloned().unwrap_or_default();
        let mut own = before.without_newer(&binding.released);
        for claim in &binding.claims {
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
        Ok(Applied::Bound)
    }

    /// What each virtual cluster is bound to.
    pub fn bound(&self) -> impl Iterator<Item = (&VcName, &Bound)> {
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
