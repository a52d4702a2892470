//! What comes out of a host.

use crate::id::{GroupId, NodeId, ReplicaId};
use crate::input::Ticket;
use crate::membership::Unfit;
use crate::write::Write;

/// What a host wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostOutput<T> {
    /// Make durable, then give [`Written`](crate::HostInput::Written). The next one comes only after that.
    Write(Write),
    /// Carry to a node. May be lost, doubled, late.
    Send {
        /// To whom.
        to: NodeId,
        /// For [`Frame`](crate::HostInput::Frame).
        frame: Vec<u8>,
    },
    /// An entry is committed and was applied.
    Applied {
        /// Of which group.
        group: GroupId,
        /// Its place.
        index: u64,
        /// The entry.
        entry: Vec<u8>,
        /// Who asked, if that was here.
        ticket: Option<Ticket>,
        /// What the machine says.
        output: T,
    },
    /// The membership has changed.
    Changed {
        /// Of which group.
        group: GroupId,
        /// Who asked, if that was here.
        ticket: Option<Ticket>,
    },
    /// The machine is now as new as it was anywhere when this was asked.
    Read {
        /// Of which group.
        group: GroupId,
        /// Who asked.
        ticket: Ticket,
    },
    /// A question that comes to nothing.
    Refused {
        /// Of which group.
        group: GroupId,
        /// Who asked.
        ticket: Ticket,
        /// Why.
        why: HostRefusal,
    },
    /// This replica leads, and has applied all that was committed before its term.
    Leads {
        /// Which group.
        group: GroupId,
        /// From which term on.
        term: u64,
    },
    /// This replica does not lead. `leader`: who does, if that is known.
    Follows {
        /// Which group.
        group: GroupId,
        /// The newest term.
        term: u64,
        /// Who leads.
        leader: Option<NodeId>,
    },
    /// The machine was set to a state of another replica.
    Restored {
        /// Which group.
        group: GroupId,
        /// Up to here.
        index: u64,
    },
    /// To the leader: a replica is no more; it should be removed and another one added.
    Lost {
        /// Of which group.
        group: GroupId,
        /// Which one.
        replica: ReplicaId,
    },
    /// The replica here is no more.
    Removed {
        /// Of which group.
        group: GroupId,
        /// Which one.
        replica: ReplicaId,
        /// Why.
        why: Removal,
    },
}

/// Why a question comes to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostRefusal {
    /// Ask the leader.
    #[error("this node does not lead the group")]
    NotLeader(Option<NodeId>),
    /// There is no copy here.
    #[error("this node has no copy of the group")]
    NoReplica,
    /// It was not taken; try again.
    #[error("the group is busy; try again")]
    Busy,
    /// An entry says something.
    #[error("the entry is empty")]
    Empty,
    /// Another leader's entry has its place: it will never be committed.
    #[error("another leader took over before it was committed; try again")]
    Superseded,
    /// It may have been committed or not: this replica has only the state since.
    #[error("the lead was lost; whether it was committed is not known here")]
    Unknown,
    /// The change of membership makes no sense.
    #[error("the membership cannot be changed so: {0}")]
    Unfit(Unfit),
}

/// Why a replica is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Its group removed it.
    ByGroup,
    /// Its node has left the group.
    ByNode,
    /// Another group has taken the place of this one, for good.
    Succeeded,
    /// What it keeps cannot be read, or is not all that it promised to keep.
    Unreadable(String),
    /// What it keeps, or was sent, is whole, and nothing that this release understands.
    Foreign(String),
}
