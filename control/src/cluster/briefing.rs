//! What every member has to know of the state, although it has no copy of the group.

use std::collections::BTreeMap;

use muster_gossip::key::ClusterId;
use muster_model::id::{NodeId, UserName};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::document::{DESCRIPTION, Document};
use super::entry::Birth;
use super::scheduling::Scheduling;
use super::secret::Hidden;
use super::users::{Keys, User};

/// What the leader tells the members. Of two of the same cluster, the one with the higher version
/// holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Briefing {
    /// Which cluster.
    pub cluster: ClusterId,
    /// Index of the entry that changed any of this last.
    pub version: u64,
    /// The keys that all members share.
    pub keys: Keys,
    /// Every virtual cluster, by name.
    pub vcs: Vec<Birth>,
    /// The users, without the hashes of their passwords: those are for the voters alone.
    pub users: BTreeMap<UserName, User>,
    /// The members that an admin keeps jobs off.
    pub closed: BTreeMap<NodeId, Scheduling>,
    /// The version of the [`DESCRIPTION`] in force; 0 if nobody described the cluster.
    pub description: u64,
}

impl ClusterState {
    /// What every member has to know; none before the cluster is founded.
    pub fn briefing(&self) -> Option<Briefing> {
        let users = self.users.iter();
        let briefed = |user: &User| User {
            password_hash: Hidden::default(),
            ..user.clone()
        };
        Some(Briefing {
            cluster: self.cluster()?.id,
            version: self.briefed,
            keys: self.keys.clone()?,
            vcs: self.vcs.values().cloned().collect(),
            users: users
                .map(|(name, user)| (name.clone(), briefed(user)))
                .collect(),
            closed: self.closed().collect(),
            description: self.document(DESCRIPTION).map_or(0, Document::active),
        })
    }

    fn closed(&self) -> impl Iterator<Item = (NodeId, Scheduling)> {
        let closed = self.members.iter().filter(|member| member.is_closed());
        closed.filter_map(|member| Some((member.name.clone(), member.scheduling.clone()?)))
    }

    /// The version that a [`Briefing`] would have now.
    pub const fn briefed(&self) -> u64 {
        self.briefed
    }
}
