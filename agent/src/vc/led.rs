//! The virtual clusters that are led here.

use std::collections::BTreeSet;

use muster_consensus::{GroupId, NodeId};
use muster_control::answers;
use muster_model::id;
use tokio::sync::watch;

use super::AtLeader;
use super::handle::Seat;
use crate::groups::Groups;

/// The virtual clusters that are led here.
#[derive(Clone, Debug)]
pub(crate) struct LedVcs {
    groups: Groups,
    me: NodeId,
    seat: watch::Receiver<Seat>,
}

impl LedVcs {
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
        AtLeader::new(&self.groups, self.me, group)
    }

    /// Up to which entry those of these groups are committed that are led here, by the word of a majority
    /// given after this was asked.
    pub(crate) async fn committed(&self, groups: Vec<u64>) -> Vec<(u64, u64)> {
        answers::vc::committed(&self.groups, groups).await
    }

    /// A node asks for renewal of what it holds of these groups. Those that are led here, as a majority has
    /// confirmed after this was asked.
    pub(crate) async fn renew_all(&self, groups: Vec<u64>, node: &id::NodeId) -> Vec<u64> {
        answers::vc::renew_all(&self.groups, groups, node).await
    }
}
