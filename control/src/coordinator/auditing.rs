//! Whether the cells are as committed, checked from scratch. For tests.

use super::Coordinator;
use crate::gang::GangId;
use crate::vc::VcState;
use crate::vc::attempt::Phase;

impl Coordinator {
    /// Checks that the cells agree with what is committed: every task that may run has its
    /// leaves, and nothing is held for a gang that has none by what is committed, that is not
    /// being reserved, claims nothing, and has no devices that its node is still clearing.
    ///
    /// # Errors
    /// The first thing that is wrong, as a sentence.
    #[doc(hidden)]
    pub fn audit(&self, state: &VcState) -> Result<(), String> {
        if !self.leads {
            return Ok(());
        }
        self.nodes.audit()?;
        self.inventory.audit_news(&self.nodes)?;
        for (gang, work) in self.work.iter().chain(&self.mends) {
            let is_linked = |node| self.linked.get(node).is_some_and(|it| it.contains(gang));
            if !work.links.keys().all(is_linked) {
                return Err(format!("{gang:?} has a node that does not have it"));
            }
        }
        self.inventory.audit(state, |gang| {
            let work = self.work.get(gang);
            work.is_some_and(|work| work.reserving.is_some())
        })?;
        let stale = |gang: &&GangId| {
            let current = state.current(gang);
            current.is_none_or(|current| current.gang.phase != Phase::Waiting)
        };
        match self.plan.gangs().find(stale) {
            Some(gang) => Err(format!("{gang:?} is planned though it does not wait")),
            None => Ok(()),
        }
    }

    /// Whether the cells are as if nothing had ever been placed.
    #[doc(hidden)]
    pub fn is_pristine(&self) -> bool {
        let mut inventory = self.inventory.clone();
        // While nothing waits nobody looks at what runs for other virtual clusters.
        inventory.follow_others(&self.nodes);
        inventory.is_pristine()
    }
}
