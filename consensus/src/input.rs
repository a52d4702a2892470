//! What goes into a host.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{GroupId, Home, NodeId, ReplicaId};
use crate::membership::Change;

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
        /// As [`Output::Send`](crate::Output::Send) gave it there.
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
    /// The node has this number from now on: it joined a cluster, or left one.
    Named(NodeId),
    /// From now on only these groups may give this node copies. Until this is said, all may.
    Welcome(BTreeSet<GroupId>),
    /// The copy here ends, by its node's own will. Its group is not asked: to the others it is
    /// lost.
    Leave {
        /// Of which group.
        group: GroupId,
    },
    /// Puts an entry into the group's log.
    Propose {
        /// Of which group.
        group: GroupId,
        /// Comes back once.
        ticket: Ticket,
        /// For the machine; not empty.
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
