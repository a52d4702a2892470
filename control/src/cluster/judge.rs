//! Whether a stranger may join.

use muster_gossip::join::{Petition, Refusal};
use muster_gossip::member::MemberId;

use super::ClusterState;
use super::entry::{Admission, Entry};

/// What to do about a petition whose proof holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Commit this; if it is rejected after all, [`Rejected::refusal`](super::Rejected::refusal)
    /// says what to answer.
    Propose(Entry),
    /// It was admitted before and asks again: answer the same.
    Admitted(MemberId),
}

impl ClusterState {
    /// Judges a petition that a member handed on. That the claim names the member itself as the
    /// asked node is the caller's to check: it knows whose connection the petition came over.
    /// Nothing about the token is told to who cannot prove it.
    ///
    /// # Errors
    /// Why the stranger is refused.
    pub fn judge(&self, petition: &Petition, now_ms: u64) -> Result<Judgement, Refusal> {
        let claim = &petition.claim;
        let cluster = self.cluster().ok_or(Refusal::Unavailable)?;
        if self.member_by_key(&claim.node).is_none() {
            return Err(Refusal::Unavailable);
        }
        let token = self.token(claim.token).ok_or(Refusal::UnknownToken)?;
        if claim.cluster != cluster.id || !petition.proof.holds(claim, &token.key) {
            return Err(Refusal::WrongSecret);
        }
        if claim.feature_level < cluster.feature_level {
            return Err(Refusal::Outdated);
        }
        let admission = Admission {
            token: claim.token,
            key: claim.joiner,
            name: claim.name.clone(),
            rack: claim.rack.clone(),
            at_ms: now_ms,
        };
        match self.admitted_before(&admission) {
            Ok(Some(member)) => Ok(Judgement::Admitted(member)),
            Ok(None) => Ok(Judgement::Propose(Entry::Admitted(Box::new(admission)))),
            Err(rejected) => Err(rejected.refusal()),
        }
    }
}
