//! What goes into the core of a member, and what comes out.

use std::sync::Arc;

use muster_consensus::{GroupId, ReplicaChange};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;

use super::alarms::{Clearing, Owner, Trouble};
use super::routing::RoutingRecord;
use super::seen::MembersSeen;
use crate::cluster::{ClusterMap, Lineage};
use crate::groups;

/// What happens to a member.
#[derive(Debug)]
pub enum MemberInput {
    /// [`deadline`](super::MemberCore::deadline) has passed.
    Tick,
    /// For the copies of groups.
    Groups(groups::GroupHostInput),
    /// This node is this member of a cluster from now on.
    Joined {
        /// The cluster.
        cluster: ClusterId,
        /// The number of the member.
        member: MemberId,
        /// The group that decides for the cluster, as far as is known.
        lineage: Lineage,
    },
    /// It is a member no more: its copies of the cluster's groups end.
    Left,
    /// The members are seen so from now on. Those of another cluster are ignored.
    Seen(Box<MembersSeen>),
    /// The cluster told its members this. One of another cluster is ignored.
    ClusterMap(Arc<ClusterMap>),
    /// A member is about to go: its copy of a group that is led here finds another place. To be given again
    /// for as long as the member is about to go.
    Going {
        /// The group.
        group: GroupId,
        /// The member.
        member: MemberId,
    },
}

/// What a member wants done, in this order.
#[derive(Debug)]
pub enum MemberOutput {
    /// Of the copies of groups.
    Groups(groups::GroupHostOutput),
    /// Tell all members this; it takes the place of what was told before. The summary is the caller's to
    /// write.
    Routing(RoutingRecord),
    /// Something that people may want to know.
    Event(MemberEvent),
}

/// Something that people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// Another group decides for the cluster from now on.
    Succeeded {
        /// The generation of the cluster.
        generation: u32,
    },
    /// Copies of a group that is led here change.
    CopiesChange {
        /// The group.
        group: GroupId,
        /// In this order, all at once.
        changes: Vec<ReplicaChange>,
    },
    /// Something is wrong from now on.
    Raised(Trouble),
    /// What was raised is over.
    Cleared {
        /// As it was raised.
        trouble: Trouble,
        /// Why.
        why: Clearing,
    },
    /// Another member than before leads a group.
    LeaderChanged {
        /// What the group decides for.
        owner: Owner,
        /// The name of the member that leads.
        leader: String,
        /// The name of the one that led before.
        before: String,
    },
}
