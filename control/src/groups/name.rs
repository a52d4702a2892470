//! Which number a group has, and what it replicates.

use muster_consensus::{GroupId, NodeId};
use muster_gossip::key::ClusterId;
use muster_gossip::member::MemberId;

/// What a group replicates: told by the lowest bit of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// The cluster state.
    Cluster,
    /// A virtual cluster.
    Vc,
}

/// What a group replicates.
pub const fn kind(group: GroupId) -> GroupKind {
    match group.0 & 1 {
        0 => GroupKind::Cluster,
        _ => GroupKind::Vc,
    }
}

/// The group of a cluster: another one for every cluster, so that what a node keeps of the one it
/// left is never taken for the one it joined.
pub fn cluster(id: ClusterId) -> GroupId {
    let [a, b, c, d, e, f, g, h, ..] = id.0;
    GroupId(u64::from_le_bytes([a, b, c, d, e, f, g, h]) & !1)
}

/// The group of a virtual cluster that is about to be born, by a random number.
pub const fn new_vc(random: u64) -> GroupId {
    GroupId(random | 1)
}

/// The group that is to hold the state of a cluster in place of another one, by a random number.
pub const fn new_cluster(random: u64) -> GroupId {
    GroupId(random & !1)
}

/// The number of a node in the cluster that it founds at its first start.
pub const FOUNDER: NodeId = NodeId(0);

/// A member as groups know it.
pub fn node(member: MemberId) -> NodeId {
    NodeId(member.0.into())
}

/// The member behind a number of a group's; none for one that no member can have.
pub fn member(node: NodeId) -> Option<MemberId> {
    u32::try_from(node.0).ok().map(MemberId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterState;

    #[test]
    fn the_founder_is_the_clusters_first_member() {
        assert_eq!(FOUNDER, node(ClusterState::FOUNDER));
    }

    #[test]
    fn a_number_tells_what_the_group_replicates() {
        let mut id = ClusterId::default();
        id.0[0] = 0xff;
        assert_eq!(kind(cluster(id)), GroupKind::Cluster);
        assert_eq!(cluster(id), GroupId(0xfe));
        assert_eq!(kind(new_cluster(7)), GroupKind::Cluster);
        assert!(
            [6, 7]
                .iter()
                .all(|random| kind(new_vc(*random)) == GroupKind::Vc)
        );
    }

    #[test]
    fn members_and_nodes_have_one_number() {
        assert_eq!(member(node(MemberId(7))), Some(MemberId(7)));
        assert_eq!(member(NodeId(u64::MAX)), None);
    }
}
