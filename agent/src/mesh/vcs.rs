//! Has a member serve the cluster's virtual cluster, as soon as it was told which that is: the
//! briefing says so.

use std::sync::Arc;

use super::member::Member;
use crate::accounts::{Accounts, Source};

/// Has the member serve the cluster's first virtual cluster: at once if it is known here.
pub(super) fn serve(member: &Arc<Member>, accounts: &Accounts) {
    let (member, mut told) = (Arc::downgrade(member), accounts.watch());
    tokio::spawn(async move {
        loop {
            let first = match &*told.borrow_and_update() {
                Source::Briefed(briefing, _) => briefing.vcs.first().cloned(),
                Source::Own | Source::Waiting(_) => None,
            };
            let Some(member) = member.upgrade() else {
                return;
            };
            if let Some(first) = first {
                // Fails only while the agent ends.
                let _ = member.serve(&first).await;
                return;
            }
            drop(member);
            if told.changed().await.is_err() {
                return;
            }
        }
    });
}
