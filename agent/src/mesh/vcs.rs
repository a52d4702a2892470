//! Which virtual clusters the cluster has: asked of the group that knows, and kept on disk, so that
//! this node serves its one while that group has no leader.

use std::sync::Arc;
use std::time::Duration;

use super::member::Member;
use super::membership::Files;
use crate::affairs::question::{Answer, Question};

/// Pause before the cluster is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Has the member serve the cluster's virtual cluster, at once if it is known here, else as soon as
/// somebody tells.
pub(super) fn learn(member: &Arc<Member>, files: &Files) {
    let (member, files) = (Arc::downgrade(member), files.clone());
    tokio::spawn(async move {
        loop {
            let Some(member) = member.upgrade() else {
                return;
            };
            let known = match files.vcs() {
                Some(known) => Some(known),
                None => match member.authority().ask(Question::Vcs).await {
                    Answer::Vcs(vcs) => Some(vcs),
                    _ => None,
                },
            };
            if let Some(first) = known.as_deref().and_then(<[_]>::first) {
                if let Err(error) = files.write_vcs(known.as_deref().unwrap_or_default()) {
                    tracing::warn!(%error, "the virtual clusters cannot be kept");
                }
                // Fails only while the agent ends.
                let _ = member.serve(first).await;
                return;
            }
            drop(member);
            tokio::time::sleep(AGAIN).await;
        }
    });
}
