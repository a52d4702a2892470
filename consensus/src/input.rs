//! What goes into a host.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{GroupId, NodeId, ReplicaHome, ReplicaId};
use crate::membership::ReplicaChange;

/// Names a question of the host's owner in what comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What happens to a host.
#[derive(Clone, Debug)]
pub enum HostInput {
    /// Time has passed.
    Tick,
    /// A frame of another node.
    Frame {
        /// Proven by the link.
        from: NodeId,
        /// As [`Output::Send`](crate::HostOutput::Send) gave it there.
        bytes: Vec<u8>,
    },
    /// The write of this number is durable, and so are all before it.
    Written(u64),
    /// This node is one of the first to have a copy. Nothing happens if it has one, or had.
    Creation {
        /// Of which group.
        group: GroupId,
        /// All first copies; all vote.
        homes: BTreeMap<ReplicaId, ReplicaHome>,
    },
    /// Another group has taken the place of this one: the copy here ends, and so does every other that
    /// hears of it from here, even a majority that knows nothing of the other group.
    Succeeded {
        /// Which.
        group: GroupId,
    },
    /// A group begins with what this node's copy of another one holds, committed or not, and takes its
    /// place. For a group that has lost most of its voters for good: what it had committed is in the log of
    /// one of the others if it is anywhere. Nothing happens if the node has a copy of the new group, or
    /// had, or has none of the other.
    Inherit {
        /// The new group.
        group: GroupId,
        /// Its entries count on from here, or from where those of the other one end, if that is more:
        /// what only lost copies had there is not to be named again.
        after: u64,
        /// The other one.
        from: GroupId,
        /// Where its only copy is to lie; another node's, or one on another disk, is not made here.
        home: ReplicaHome,
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
        changes: Vec<ReplicaChange>,
    },
    /// Hands the lead over, if the other one is near enough.
    Transfer {
        /// Of which group.
        group: GroupId,
        /// To a voter.
        to: ReplicaId,
    },
}
