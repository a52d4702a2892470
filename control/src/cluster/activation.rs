//! What comes next for a document: distribute, canaries, all.
//!
//! A version goes on when every member that can be reached has it and found it valid; then a few
//! members put it in force, and if none of them came to harm for a while, all do. One member that
//! finds it bad stops it, and so does a canary that restarts, or is gone when its time is over:
//! what harmed one of a hundred is not given to the others.

use std::collections::BTreeMap;

use muster_gossip::frame::{Coverage, DocumentRef};
use muster_gossip::member::{Incarnation, MemberId};
use muster_gossip::mesh::Reach;
use muster_gossip::record::DocumentId;

use super::ClusterState;
use super::document::{CANARIES_MAX, Canary, REASON_BYTES_MAX, Revision, VersionStage};
use super::entry::{ActivationStep, ClusterEntry};

/// Members named in a reason, at most.
const NAMED_MAX: usize = 5;

/// How long canaries are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Soak {
    /// Until the others follow, ms.
    pub soak_ms: u64,
    /// After that, until canaries that can be reached must have it in force, ms.
    pub late_ms: u64,
}

impl Default for Soak {
    fn default() -> Self {
        Self {
            soak_ms: 60_000,
            late_ms: 60_000,
        }
    }
}

/// How a member is seen by whoever proposes the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberHealth {
    /// Whether it can be reached.
    pub reach: Reach,
    /// Its newest known incarnation.
    pub incarnation: Incarnation,
}

/// How far the newest version of a document has come on the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivationProgress {
    /// As gossip merged it; of an older version it counts for nothing.
    pub coverage: Coverage,
    /// Why members rejected it, as far as it is known.
    pub reasons: BTreeMap<MemberId, String>,
}

/// Who proposes the steps, and what it knows.
#[derive(Clone, Copy, Debug)]
pub struct Proposer<'a> {
    /// Its own number: it does not try a version itself where another one can.
    pub me: MemberId,
    /// How far the newest versions have come.
    pub progress: &'a BTreeMap<DocumentId, ActivationProgress>,
    /// Who is seen how. A member that is missing here counts as unreachable.
    pub sights: &'a BTreeMap<MemberId, MemberHealth>,
    /// How long canaries are watched.
    pub soak: Soak,
    /// Its clock, ms since the epoch.
    pub now_ms: u64,
}

/// The next step of some document, if one is due. Call it again after it is applied; of several
/// proposers' steps the first one is taken, and what comes second is rejected.
pub fn steps(state: &ClusterState, proposer: &Proposer<'_>) -> Option<ClusterEntry> {
    let none = ActivationProgress::default();
    state.documents().find_map(|(id, document)| {
        let newest = document.newest()?;
        let version = newest.version;
        let view = ActivationView {
            state,
            revision: newest,
            document: DocumentRef { id, version },
            progress: proposer.progress.get(&id).unwrap_or(&none),
            proposer,
        };
        Some(ClusterEntry::DocumentStep(Box::new(ActivationStep {
            id,
            version,
            stage: view.next()?,
            forced: false,
            at_ms: proposer.now_ms,
        })))
    })
}

struct ActivationView<'a> {
    state: &'a ClusterState,
    revision: &'a Revision,
    document: DocumentRef,
    progress: &'a ActivationProgress,
    proposer: &'a Proposer<'a>,
}

impl ActivationView<'_> {
    fn next(&self) -> Option<VersionStage> {
        match self.revision.stage() {
            VersionStage::Distribute => self.rejected().or_else(|| self.distributed()),
            VersionStage::Canary(canaries) => {
                // Who left meanwhile was not harmed by it.
                let canaries: Vec<&Canary> = canaries
                    .iter()
                    .filter(|canary| self.state.admitted(canary.member).is_some())
                    .collect();
                let restarted = || self.restarted(&canaries);
                let soaked = || self.soaked(&canaries);
                self.rejected().or_else(restarted).or_else(soaked)
            }
            VersionStage::Active | VersionStage::Withdrawn(_) => None,
        }
    }

    fn rejected(&self) -> Option<VersionStage> {
        let coverage = self.coverage()?;
        let members = self
            .state
            .members()
            .filter(|(_, member)| member.is_admitted());
        let rejected: Vec<MemberId> = members
            .map(|(id, _)| id)
            .filter(|id| has(&coverage.rejected, *id))
            .collect();
        let first = rejected.first()?;
        let reason = match self.progress.reasons.get(first) {
            Some(reason) => format!(": {reason}"),
            None => String::new(),
        };
        Some(withdrawn(format!(
            "rejected by {}{reason}",
            self.names(&rejected)
        )))
    }

    /// All that can be reached have it and found it valid, and somebody has.
    fn distributed(&self) -> Option<VersionStage> {
        let coverage = self.coverage()?;
        let reachable = self.reachable();
        let valid = |id: &MemberId| has(&coverage.valid, *id);
        if reachable.is_empty() || !reachable.iter().all(valid) {
            return None;
        }
        if self.state.size() == 1 {
            return Some(VersionStage::Active);
        }
        Some(VersionStage::Canary(self.canaries(&reachable)))
    }

    /// One of a hundred members, chosen anew for each version, and not the proposer if there is
    /// another: it orders the way back.
    fn canaries(&self, reachable: &[MemberId]) -> Vec<Canary> {
        let count = self.state.size().div_ceil(100).min(CANARIES_MAX);
        let mut order: Vec<_> = reachable
            .iter()
            .map(|id| (*id == self.proposer.me, self.lot(*id), *id))
            .collect();
        order.sort_unstable();
        let spare = order.len().saturating_sub(1).max(1);
        let mut chosen: Vec<Canary> = order
            .iter()
            .take(count.min(spare))
            .map(|(_, _, member)| Canary {
                member: *member,
                incarnation: self.incarnation(*member),
            })
            .collect();
        chosen.sort_unstable_by_key(|canary| canary.member);
        chosen
    }

    fn lot(&self, member: MemberId) -> [u8; 32] {
        use sha2::{Digest as _, Sha256};
        let mut hash = Sha256::new();
        hash.update(self.document.id.0.to_le_bytes());
        hash.update(self.document.version.to_le_bytes());
        hash.update(member.0.to_le_bytes());
        hash.finalize().into()
    }

    fn restarted(&self, canaries: &[&Canary]) -> Option<VersionStage> {
        let again = |canary: &&Canary| self.incarnation(canary.member) > canary.incarnation;
        self.harmed(
            canaries.iter().copied().filter(again),
            "restarted while they tried it",
        )
    }

    /// The time is over: whoever is gone was harmed; whoever does not have it in force by then is
    /// waited for a little longer.
    fn soaked(&self, canaries: &[&Canary]) -> Option<VersionStage> {
        let coverage = self.coverage()?;
        let passed_ms = self
            .proposer
            .now_ms
            .saturating_sub(self.revision.since_ms());
        if passed_ms < self.proposer.soak.soak_ms {
            return None;
        }
        if canaries.is_empty() {
            return Some(withdrawn(
                "all canaries left while they tried it".to_owned(),
            ));
        }
        let gone = |canary: &&Canary| !self.is_reachable(canary.member);
        let gone = canaries.iter().copied().filter(gone);
        if let Some(harmed) = self.harmed(gone, "cannot be reached since they tried it") {
            return Some(harmed);
        }
        let late = |canary: &&Canary| !has(&coverage.active, canary.member);
        let harmed = self.harmed(
            canaries.iter().copied().filter(late),
            "did not put it in force",
        );
        if harmed.is_some() && passed_ms < self.proposer.soak.soak_ms + self.proposer.soak.late_ms {
            return None;
        }
        Some(harmed.unwrap_or(VersionStage::Active))
    }

    fn harmed<'a>(
        &self,
        canaries: impl Iterator<Item = &'a Canary>,
        what: &str,
    ) -> Option<VersionStage> {
        let members: Vec<_> = canaries.map(|canary| canary.member).collect();
        let some = !members.is_empty();
        some.then(|| withdrawn(format!("canaries {what}: {}", self.names(&members))))
    }

    fn coverage(&self) -> Option<&Coverage> {
        let coverage = &self.progress.coverage;
        (coverage.document == Some(self.document)).then_some(coverage)
    }

    fn reachable(&self) -> Vec<MemberId> {
        let members = self
            .state
            .members()
            .filter(|(_, member)| member.is_admitted());
        members
            .map(|(id, _)| id)
            .filter(|id| self.is_reachable(*id))
            .collect()
    }

    fn is_reachable(&self, member: MemberId) -> bool {
        let sight = self.proposer.sights.get(&member);
        sight.is_some_and(|sight| sight.reach != Reach::Unreachable)
    }

    fn incarnation(&self, member: MemberId) -> Incarnation {
        let sight = self.proposer.sights.get(&member);
        sight.map_or_else(Incarnation::default, |sight| sight.incarnation)
    }

    fn names(&self, members: &[MemberId]) -> String {
        let name = |id: &MemberId| match self.state.member(*id) {
            Some(member) => member.name.to_string(),
            None => id.0.to_string(),
        };
        let named: Vec<String> = members.iter().take(NAMED_MAX).map(name).collect();
        match members.len().checked_sub(NAMED_MAX) {
            None | Some(0) => named.join(", "),
            Some(more) => format!("{} and {more} more", named.join(", ")),
        }
    }
}

/// Whether a member's bit is set, lowest bit of the first byte first.
pub(crate) fn has(bitmap: &[u8], member: MemberId) -> bool {
    let byte = bitmap.get(member.index() / 8);
    byte.is_some_and(|byte| byte >> (member.index() % 8) & 1 == 1)
}

fn withdrawn(mut reason: String) -> VersionStage {
    while reason.len() > REASON_BYTES_MAX {
        reason.pop();
    }
    VersionStage::Withdrawn(reason)
}
