//! Why a group did not do what it was asked.

use muster_consensus::{HostRefusal, NodeId, Unfit};
use muster_model::id;

/// Why a group did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The disk refused, and refuses still. Nothing was changed.
    #[error("the state cannot be written: {0}")]
    Storage(String),
    /// It may yet come about.
    #[error("it is not known whether this took effect, look before you try again: {0}")]
    Unknown(String),
    /// Too much waits. Nothing was changed.
    #[error("the agent is overloaded; try again")]
    Overloaded,
    /// The loop has ended. Nothing is known.
    #[error("the agent is shutting down")]
    Ended,
    /// Another node leads the group. Nothing was changed.
    #[error("another node leads")]
    Elsewhere(NodeId),
    /// This node has no copy of the group. Nothing was changed.
    #[error("this node has no copy of the group")]
    NoCopy,
    /// Nobody is known to lead the group. Nothing was changed.
    #[error("no leader is known; the others elect one, or too few of them can be reached")]
    NoLeader,
    /// Another leader's entry took its place: this one never comes about.
    #[error("another leader took over meanwhile; try again")]
    Superseded,
    /// This release cannot read what it has written itself.
    #[error("the entry was not understood")]
    Unreadable,
    /// A node that is said to be off can be reached. Nothing was changed.
    #[error("{0} can be reached, so it is not off")]
    On(id::NodeId),
    /// The members of the group cannot be changed so.
    #[error("the group's members cannot be changed so: {0}")]
    Unfit(Unfit),
}

impl From<HostRefusal> for GroupError {
    fn from(refused: HostRefusal) -> Self {
        match refused {
            HostRefusal::NotLeader(Some(node)) => Self::Elsewhere(node),
            HostRefusal::NotLeader(None) => Self::NoLeader,
            HostRefusal::NoReplica => Self::NoCopy,
            HostRefusal::Busy => Self::Overloaded,
            HostRefusal::Empty => Self::Unreadable,
            HostRefusal::Superseded => Self::Superseded,
            HostRefusal::Unknown => Self::Unknown("the lead was lost".to_owned()),
            HostRefusal::Unfit(unfit) => Self::Unfit(unfit),
        }
    }
}
