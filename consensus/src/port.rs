//! What goes into a host and what comes out.

use std::collections::BTreeMap;

use crate::id::{GroupId, Home, NodeId, ReplicaId};
use crate::membership::{Change, Unfit};
use crate::write::Write;

/// Names a question of the host's owner in what comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What happens to a host.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A frame of another node.
    Frame {
        /// Proven by the link.
        from: NodeId,
        /// As [`Output::Send`] gave it there.
        bytes: Vec<u8>,
    },
    /// The write of this number is durable, and so are all before it.
    Written(u64),
    /// This node is one of the first to have a copy. Nothing happens if it has one, or had.
    Birth {
        /// Of which group.
        group: GroupId,
        /// All first copies; all vote.
        homes: BTreeMap<ReplicaId, Home>,
    },
    /// Puts an entry into the group's log.
    Propose {
        /// Of which group.
        group: GroupId,
        /// Comes back once.
        ticket: Ticket,
        /// For the machine.
        entry: Vec<u8>,
    },
    /// Asks that the machine be as new as it is anywhere now, and that this replica leads.
    Read {
        /// Of which group.
        group: GroupId,
        /// Comes back once.
        ticket: Ticket,
    },
    /// Changes who has copies, all at once.
    Change {
        /// Of which group.
        group: GroupId,
        /// Comes back once.
        ticket: Ticket,
        /// In this order.
        changes: Vec<Change>,
    },
    /// Hands the lead over, if the other one is near enough.
    Transfer {
        /// Of which group.
        group: GroupId,
        /// To a voter.
        to: ReplicaId,
    },
}

/// What a host wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<T> {
    /// Make durable, then give [`Input::Written`]. The next one comes only after that.
    Write(Write),
    /// Carry to a node. May be lost, doubled, late.
    Send {
        /// To whom.
        to: NodeId,
        /// For [`Input::Frame`].
        frame: Vec<u8>,
    },
    /// An entry is committed and was applied.
    Applied {
        /// Of which group.
        group: GroupId,
        /// Its place.
        index: u64,
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
        why: Refused,
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
pub enum Refused {
    /// Ask the leader.
    #[error("this node does not lead the group")]
    NotLeader(Option<NodeId>),
    /// There is no copy here.
    #[error("this node has no copy of the group")]
    NoReplica,
    /// It was not taken; try again.
    #[error("the group is busy; try again")]
    Busy,
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
    /// What it keeps cannot be read.
    Unreadable(String),
}
