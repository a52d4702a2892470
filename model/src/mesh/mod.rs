//! The mesh as one node sees it, for users. Every node answers with its own view and with how
//! old that is; views of two nodes differ while they cannot reach each other.

mod document;
mod leadership;
mod member;
mod recovery;
mod scheduling;
mod token;

pub use document::{
    ActivationStage, CoverageView, DocumentText, DocumentVersion, DocumentView, LocalDocument,
    Rejection, VersionView,
};
pub use leadership::Leadership;
pub use member::{MemberReach, MemberState, MemberView};
pub use recovery::RecoveryView;
pub use scheduling::{MemberTask, Scheduling, SchedulingView};
pub use token::{CreatedToken, NewToken, TokenView};

use std::collections::BTreeMap;

use crate::id::VcName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cluster that a node belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterView {
    /// Its id, in hex.
    pub id: String,
    /// Its name. Empty where a machine is alone, or while that is not known.
    pub name: String,
    /// Hash of its root key, in hex: what a joining node checks against its token.
    pub root_hash: String,
    /// Raised only by disaster recovery.
    pub generation: u32,
    /// What its members may use of the mesh: the least that all of them understand.
    pub feature_level: u32,
}

/// The mesh as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeshView {
    /// The cluster; without a name where this machine is alone.
    pub cluster: Option<ClusterView>,
    /// Whether this machine is alone: the cluster has no name, the ports of the mesh are closed, and no
    /// other machine can join.
    pub solo: bool,
    /// Name of the node whose view this is.
    pub me: String,
    /// Who holds the cluster state.
    pub leadership: Leadership,
    /// Who keeps each virtual cluster's list of jobs, and places them.
    pub vcs: BTreeMap<VcName, Leadership>,
    /// Everybody who was ever admitted, this node included, by number.
    pub members: Vec<MemberView>,
    /// Names of members, in groups that hear each other as far as votes show, the largest first.
    /// An unreachable member alone is no group. One group: nobody is cut off.
    pub islands: Vec<Vec<String>>,
    /// Links that work in one direction only.
    pub one_way: Vec<OneWay>,
    /// Digest of all records, in hex: equal on two nodes that know the same.
    pub digest: String,
    /// What happened since the start, by name: most of it dropped or refused, and why.
    pub counters: BTreeMap<String, u64>,
    /// Documents, by name.
    pub documents: Vec<DocumentView>,
    /// Another machine uses this node's key: what was seen of it.
    pub cloned: Option<String>,
    /// Fingerprint of the certificate that this node's REST API shows; none where it speaks in clear.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// A link that works in one direction only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct OneWay {
    /// What this member sends arrives at `to`.
    pub from: String,
    /// What this one sends does not arrive at `from`.
    pub to: String,
}

/// What keeps this node from joining a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinPlan {
    /// Jobs that are queued or running. Joining is refused while there is one.
    pub jobs: Vec<String>,
}

/// What joining a cluster did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The cluster.
    pub cluster: ClusterView,
    /// The number this node has there.
    pub member: u32,
    /// The name this node has there.
    pub name: String,
}

/// How this node is, with what was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Seconds since its agent started.
    pub uptime_s: u64,
    /// One for each part of the agent.
    pub checks: Vec<crate::finding::Finding>,
}

impl MeshView {
    /// The view without names of users, for those who did not log in.
    #[must_use]
    pub fn without_users(mut self) -> Self {
        for document in &mut self.documents {
            document.newest.author.clear();
        }
        for member in &mut self.members {
            if let Some(word) = &mut member.scheduling {
                word.by.clear();
            }
        }
        self
    }

    /// Members that are members still.
    pub fn admitted(&self) -> impl Iterator<Item = &MemberView> {
        let members = self.members.iter();
        members.filter(|member| member.state == MemberState::Admitted)
    }

    /// Whether a machine of this name is a member, or was one.
    pub fn has_had(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }
}
