//! Tasks that were granted under a membership that has ended: the machine left its cluster or was expelled
//! from it. No leader orders anything of them any more, and none settles their exits.
//!
//! What has no process is dropped. What waits for Go is ended, for nobody gives it. What runs goes on until
//! it ends, by itself or by its run lease; only then are its resources free.

use std::collections::BTreeSet;

use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;
use muster_model::exit::Cause;
use muster_model::id::AttemptUid;
use serde::{Deserialize, Serialize};

use super::grant::{GrantState, HeldPhase};
use super::record::{put_grant, put_service};
use super::{ExecutorStep, Ledger, LedgerOutput};
use crate::lease::GRACE_MS;

/// As which member of which cluster a machine takes orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The cluster.
    pub cluster: ClusterId,
    /// The number that it gave this machine.
    pub member: MemberId,
}

/// What is kept of the memberships. Written when it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Service {
    /// The present one, once it was told.
    membership: Option<Membership>,
    /// The tasks of earlier ones that are not dropped yet.
    orphans: BTreeSet<AttemptUid>,
}

impl Ledger {
    /// The machine is this member from now on. If it was another one, nobody settles what was granted then.
    pub(super) fn serves(&mut self, membership: Membership, out: &mut Vec<LedgerOutput>) {
        let before = self.service.membership.replace(membership);
        if before == Some(membership) {
            return;
        }
        let mut records = Vec::new();
        if before.is_some() {
            self.service.orphans.extend(self.grants.keys().cloned());
            self.end_before_go(&mut records, out);
        }
        records.push(put_service(&self.service));
        self.persist(records, out);
    }

    /// Drops what is left of earlier memberships, as far as nothing of it can run any more.
    pub(super) fn drop_orphans(&mut self) {
        if self.service.orphans.is_empty() {
            return;
        }
        let orphans = std::mem::take(&mut self.service.orphans);
        let (left, over): (BTreeSet<_>, BTreeSet<_>) =
            orphans.into_iter().partition(|uid| self.may_run(uid));
        self.service.orphans = left;
        over.iter().for_each(|uid| self.forget(uid));
        if !over.is_empty() {
            self.lazy.push(put_service(&self.service));
            self.forget_latest();
        }
    }

    /// Whether something of a task may be there.
    fn may_run(&self, uid: &AttemptUid) -> bool {
        let Some(grant) = self.grants.get(uid) else {
            return false;
        };
        match grant.state {
            GrantState::Reserved { .. }
            | GrantState::Claimed { .. }
            | GrantState::Evicting
            | GrantState::Ended { gone: true, .. } => false,
            // The container of an earlier round may be there.
            GrantState::Held(HeldPhase::Absent) => grant.clears.is_some(),
            GrantState::Held(_) | GrantState::Draining | GrantState::Ended { gone: false, .. } => {
                true
            }
        }
    }

    /// Ends what has not been told to go: nobody will say it.
    fn end_before_go(
        &mut self,
        records: &mut Vec<super::LedgerChange>,
        out: &mut Vec<LedgerOutput>,
    ) {
        for uid in &self.service.orphans {
            let Some(grant) = self.grants.get_mut(uid) else {
                continue;
            };
            let has_container = match grant.state {
                GrantState::Held(HeldPhase::Starting { go: false } | HeldPhase::Ready) => {
                    grant.clears.is_none()
                }
                // Its own is not made, and the one of the round before was told to end already.
                GrantState::Held(HeldPhase::Absent) if grant.clears.is_some() => false,
                _ => continue,
            };
            self.pending.remove(uid);
            grant.state = GrantState::Draining;
            records.push(put_grant(grant));
            if has_container {
                out.push(LedgerOutput::Step(ExecutorStep::Stop {
                    uid: uid.clone(),
                    cause: Cause::AttemptCompleted,
                    grace_ms: GRACE_MS,
                }));
            }
        }
    }
}
