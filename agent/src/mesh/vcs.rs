//! Has a member serve the cluster's virtual clusters, as soon as it was told which there are: the
//! briefing says so.

use std::sync::Arc;

use super::member::Member;
use crate::accounts::{Accounts, Source};

/// Has the member serve them, and those that are born later.
pub(super) fn serve(member: &Arc<Member>, accounts: &Accounts) {
    let (member, mut told) = (Arc::downgrade(member), accounts.watch());
    tokio::spawn(async move {
        let mut served = Vec::new();
        loop {
            let vcs = match &*told.borrow_and_update() {
                Source::Briefed(briefing, _) => briefing.vcs.clone(),
                Source::Waiting(_) => Vec::new(),
            };
            let Some(member) = member.upgrade() else {
                return;
            };
            if vcs != served && !vcs.is_empty() {
                // Fails only while the agent ends.
                let _ = member.serve(&vcs).await;
                served = vcs;
            }
            drop(member);
            if told.changed().await.is_err() {
                return;
            }
        }
    });
}
