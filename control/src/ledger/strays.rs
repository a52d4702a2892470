//! Containers that the ledger does not know: it was lost, or is an older copy of what it was. They use
//! what it takes for free, so that nothing is granted before they are gone.

use muster_model::id::AttemptUid;

use super::grant::GrantState;
use super::{ExecutorStep, Ledger, LedgerOutput};

/// Why nothing is granted before the first look.
const SEARCHING: &str = "it has not seen yet which containers are left on it; if that lasts, see \
                         whether containerd answers there";
/// Why nothing is granted after it.
const CLEARING: &str = "containers that its ledger does not know are being removed";

impl Ledger {
    /// Takes the first look of this agent life at the containers.
    pub(super) fn found(&mut self, containers: Vec<AttemptUid>, out: &mut Vec<LedgerOutput>) {
        let strays = containers.into_iter();
        let strays: Vec<_> = strays.filter(|uid| !self.may_have_container(uid)).collect();
        let remove = |uid: &AttemptUid| LedgerOutput::Step(ExecutorStep::Remove(uid.clone()));
        out.extend(strays.iter().map(remove));
        self.strays = Some(strays.into_iter().collect());
        self.changed();
        self.report(out);
    }

    /// Nothing is left of a container.
    pub(super) fn cleared(&mut self, uid: &AttemptUid, out: &mut Vec<LedgerOutput>) {
        let Some(strays) = &mut self.strays else {
            return;
        };
        if strays.remove(uid) && strays.is_empty() {
            self.changed();
            self.report(out);
        }
    }

    /// Why nothing is granted, if containers are, or may be, in the way.
    pub(super) fn why_unsettled(&self) -> Option<&'static str> {
        match &self.strays {
            None => Some(SEARCHING),
            Some(strays) => (!strays.is_empty()).then_some(CLEARING),
        }
    }

    /// What has no container yet, and what has given its own back, has no business with one.
    fn may_have_container(&self, uid: &AttemptUid) -> bool {
        let grant = self.grants.get(uid);
        grant.is_some_and(|grant| {
            matches!(
                grant.state,
                GrantState::Held(_) | GrantState::Draining | GrantState::Ended { gone: false, .. }
            )
        })
    }
}
