//! Which quarantines of a member the breaker holds back.

use std::sync::PoisonError;

use muster_gossip::member::MemberId;

use super::{ClusterService, state_of};
use crate::answers::port::{CopiesPort as _, MemberPort};
use crate::breaker::BreakerReview;
use crate::groups::{GroupError, LocalGroup};
use crate::request::cluster::ReviewQuarantines;
use crate::request::{Answers, RequestFailure};

impl<P: MemberPort> Answers<ReviewQuarantines> for ClusterService<P> {
    /// A member has a word on its own quarantines alone.
    async fn answer(
        &self,
        from: MemberId,
        request: ReviewQuarantines,
    ) -> Result<BreakerReview, RequestFailure> {
        let look = move |seen: LocalGroup<'_>| {
            let state = state_of(seen.machine)?;
            let asker = state.admitted(from).map(|member| member.name.clone());
            let members = state.members();
            let members = members.filter(|(_, member)| member.is_admitted()).count();
            Some((seen.term?, asker, members))
        };
        let found = self.copies().read(self.group(), look).await?;
        let (term, asker, members) = found.ok_or(GroupError::NoLeader)?;
        let node = asker.ok_or_else(|| {
            RequestFailure::invalid(format!(
                "member {} is not admitted to this cluster, so its quarantines do not count; have \
                 it join with `muster cluster join`",
                from.0
            ))
        })?;
        let now_ms = self.copies().now().steady.as_millis();
        let policy = self.port.breaker();
        // Each change leaves it whole, so a panic elsewhere left no half of one.
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        let breaker = breaker.in_term(term, now_ms);
        Ok(breaker.review(now_ms, (&node, &request.0), members, &policy))
    }
}

#[cfg(test)]
mod tests;
