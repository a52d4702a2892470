//! What every member has to know of the state, although it has no copy of the group.

use std::collections::BTreeMap;

use muster_gossip::key::ClusterId;
use muster_gossip::record::DocumentId;
use muster_model::id::{GroupName, NodeId, UserName};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::document::{ClusterDocument, DESCRIPTION, POLICY};
use super::entry::VcCreation;
use super::groups::{Rights, UserGroup};
use super::scheduling::AdminScheduling;
use super::secret::Hidden;
use super::users::{ClusterUser, Keys, UserToken};

/// What the leader tells the members. Of two of the same cluster, the one with the higher version
/// holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMap {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Index of the entry that changed any of this last.
    pub version: u64,
    /// The keys that all members share.
    pub keys: Keys,
    /// Every virtual cluster, by name.
    pub vcs: Vec<VcCreation>,
    /// The users, without the hashes of their passwords and the last uses of their tokens: those are for the
    /// voters alone.
    pub users: BTreeMap<UserName, ClusterUser>,
    /// The groups of users.
    pub groups: BTreeMap<GroupName, UserGroup>,
    /// The members that an admin keeps jobs off.
    pub closed: BTreeMap<NodeId, AdminScheduling>,
    /// The version of the [`DESCRIPTION`] in force; 0 if nobody described the cluster.
    pub description: u64,
    /// The version of the [`POLICY`] in force; 0 for the default. A member that has not got it yet shows no
    /// jobs of others.
    pub policy: u64,
}

impl ClusterMap {
    /// What a user may do; none if there is no such user.
    pub fn rights(&self, user: &UserName) -> Option<Rights> {
        let user = self.users.get(user)?;
        Some(Rights::of(&user.groups, &self.groups))
    }
}

impl ClusterState {
    /// What every member has to know; none before the cluster is founded.
    pub fn cluster_map(&self) -> Option<ClusterMap> {
        let users = self.users.iter();
        let told = |token: &UserToken| UserToken {
            used_s: 0,
            ..token.clone()
        };
        let given = |user: &ClusterUser| ClusterUser {
            password_hash: Hidden::default(),
            tokens: user.tokens.iter().map(told).collect(),
            ..user.clone()
        };
        Some(ClusterMap {
            cluster: self.cluster()?.id,
            version: self.map_version,
            keys: self.keys.clone()?,
            vcs: self.vcs.values().cloned().collect(),
            users: users
                .map(|(name, user)| (name.clone(), given(user)))
                .collect(),
            groups: self.groups.clone(),
            closed: self.closed().collect(),
            description: self.in_force(DESCRIPTION),
            policy: self.in_force(POLICY),
        })
    }

    fn in_force(&self, document: DocumentId) -> u64 {
        self.document(document).map_or(0, ClusterDocument::active)
    }

    fn closed(&self) -> impl Iterator<Item = (NodeId, AdminScheduling)> {
        let closed = self.members.iter().filter(|member| member.is_closed());
        closed.filter_map(|member| Some((member.name.clone(), member.scheduling.clone()?)))
    }

    /// The version that a [`ClusterMap`] would have now.
    pub const fn map_version(&self) -> u64 {
        self.map_version
    }
}
