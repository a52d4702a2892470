//! Whether a stranger may join.

use muster_gossip::join::{AdmissionRequest, JoinRefusal};
use muster_gossip::member::MemberId;

use super::ClusterState;
use super::entry::{Admission, ClusterEntry};

/// What to do about an admission request whose proof holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// Commit this; if it is rejected after all, [`Rejected::refusal`](super::ClusterRejection::refusal)
    /// says what to answer.
    Propose(ClusterEntry),
    /// It was admitted before and asks again: answer the same.
    Admitted(MemberId),
}

impl ClusterState {
    /// Judges an admission request that a member handed on. That the claim names the member itself as the
    /// asked node is the caller's to check: it knows whose connection the admission request came over.
    /// Nothing about the token is told to who cannot prove it.
    ///
    /// # Errors
    /// Why the stranger is refused.
    pub fn judge(
        &self,
        admission_request: &AdmissionRequest,
        now_ms: u64,
    ) -> Result<Judgement, JoinRefusal> {
        let claim = &admission_request.claim;
        let cluster = self.cluster().ok_or(JoinRefusal::Unavailable)?;
        if self.member_by_key(&claim.node).is_none() {
            return Err(JoinRefusal::Unavailable);
        }
        let token = self.token(claim.token).ok_or(JoinRefusal::UnknownToken)?;
        if claim.cluster != cluster.id || !admission_request.proof.holds(claim, &token.key) {
            return Err(JoinRefusal::WrongSecret);
        }
        if claim.feature_level < cluster.feature_level {
            return Err(JoinRefusal::Outdated);
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
            Ok(None) => Ok(Judgement::Propose(ClusterEntry::Admitted(Box::new(
                admission,
            )))),
            Err(rejected) => Err(rejected.refusal()),
        }
    }
}
