//! The virtual clusters that are led here.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use muster_consensus::{GroupId, NodeId};
use muster_model::id;
use tokio::sync::watch;
use tokio::time::timeout;

use super::at_leader::AtLeader;
use super::handle::Seat;
use crate::groups::Groups;

/// How long a group's majority is waited for by those who asked of several: one without a majority holds up
/// no other.
const MAJORITY_LIMIT: Duration = Duration::from_secs(1);

/// The virtual clusters that are led here.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    pub(super) groups: Groups,
    pub(super) me: NodeId,
    seat: watch::Receiver<Seat>,
}

impl Desk {
    pub(crate) const fn new(groups: Groups, me: NodeId, seat: watch::Receiver<Seat>) -> Self {
        Self { groups, me, seat }
    }

    /// The groups of the virtual clusters that this node serves.
    pub(crate) fn served(&self) -> BTreeSet<GroupId> {
        let seat = self.seat.borrow();
        let vcs = seat.vcs().into_iter().flatten();
        vcs.map(|(_, group)| *group).collect()
    }

    /// One of them.
    pub(crate) const fn at(&self, group: GroupId) -> AtLeader<'_> {
        AtLeader { desk: self, group }
    }

    /// Up to which entry those of these groups are committed that are led here, by the word of a majority
    /// given after this was asked.
    pub(crate) async fn committed(&self, groups: Vec<u64>) -> Vec<(u64, u64)> {
        let committed = groups.into_iter().map(|group| async move {
            let index = self.groups.read(GroupId(group), |seen| seen.applied);
            let index = timeout(MAJORITY_LIMIT, index).await;
            Some((group, index.ok()?.ok()?))
        });
        join_all(committed).await.into_iter().flatten().collect()
    }

    /// A node asks for renewal of what it holds of these groups. Those that are led here, as a majority has
    /// confirmed after this was asked.
    pub(crate) async fn renew_all(&self, groups: Vec<u64>, node: &id::NodeId) -> Vec<u64> {
        let renewed = groups.into_iter().map(|group| async move {
            let renewed = self.groups.renew(GroupId(group), node.clone());
            let renewed = timeout(MAJORITY_LIMIT, renewed).await;
            matches!(renewed, Ok(Ok(()))).then_some(group)
        });
        join_all(renewed).await.into_iter().flatten().collect()
    }
}
