//! Names of groups, replicas, nodes and stores: plain numbers, never given twice.

use serde::{Deserialize, Serialize};

/// A group of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId(pub u64);

/// One copy of a group, never 0. A copy that was removed, or whose disk is lost, never comes back
/// under its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaId(pub u64);

impl ReplicaId {
    /// Every copy that a group has, had, or could have: what is no more of all of them is the group.
    pub const EVERY: Self = Self(u64::MAX);
    /// No copy has a greater number: one whose own cannot be read counts as this.
    pub const LAST: Self = Self(u64::MAX - 1);
}

/// A node of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

/// A log store: a random number made with it. A node whose disk was lost comes back with another
/// one, so that nobody takes its empty copies for those that made promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub u64);

/// Where a replica lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaHome {
    /// On which node.
    pub node: NodeId,
    /// In which of the stores that this node has had.
    pub store: StoreId,
}
