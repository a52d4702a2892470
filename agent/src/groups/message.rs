//! What goes into the loop of the groups.

use std::sync::Arc;

use muster_consensus::{GroupId, NodeId, StoreId};
use muster_control::cluster::Binding;
use muster_control::groups::GroupHostInput;
use muster_control::lease::SilenceQuestion;
use muster_control::member;
use muster_model::id::VcName;
use tokio::sync::oneshot;

/// Carries a frame to a node. May lose it.
pub(crate) type FrameCarrier = Arc<dyn Fn(NodeId, Vec<u8>) + Send + Sync>;

/// Asks the leader of the `cluster` group something for the leader of the virtual cluster of this group.
pub(crate) type ClusterAsker = Box<dyn Fn(GroupId, ClusterCall) + Send>;

/// What it is asked.
#[derive(Debug)]
pub(crate) enum ClusterCall {
    /// Whether a node is silent. The answer comes as [`Input::Silence`], also if there is none.
    Silence(SilenceQuestion),
    /// To bind the virtual cluster to cells. The answer comes as [`Input::Bound`], if there is one.
    Bind {
        /// The virtual cluster.
        vc: VcName,
        /// What is asked for and given back.
        binding: Box<Binding>,
        /// The version of the bindings that is known.
        known: u64,
    },
}

/// What goes into the loop.
pub(crate) enum GroupsMessage {
    /// For the copies of groups.
    Input(GroupHostInput),
    /// For the core of the member.
    Core(member::MemberInput),
    /// The way to the other members.
    Carrier(FrameCarrier),
    /// The way to the leader of the cluster.
    Asker(ClusterAsker),
    /// Is the loop alive, and which store has it?
    Store(oneshot::Sender<StoreId>),
}

impl std::fmt::Debug for GroupsMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(input) => write!(f, "{input:?}"),
            Self::Core(input) => write!(f, "{input:?}"),
            Self::Carrier(_) => f.write_str("Carrier"),
            Self::Asker(_) => f.write_str("Asker"),
            Self::Store(_) => f.write_str("Store"),
        }
    }
}
