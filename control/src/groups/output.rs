//! What comes out of a group host.

use muster_consensus::{GroupId, NodeId, Removal, ReplicaId, Write};
use muster_model::id::{self, VcName};

use crate::cluster::Binding;
use crate::fence::Term;
use crate::lease::SilenceQuestion;
use crate::order::Order;

/// What a group host wants done, in this order.
#[derive(Debug)]
pub enum GroupHostOutput {
    /// Make durable, then give [`Written`](super::GroupHostInput::Written). The next one comes only after that.
    Write(Write),
    /// Carry to a node, where it is a [`Envelope`](super::GroupHostInput::Envelope). May be lost, late, doubled.
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        bytes: Vec<u8>,
    },
    /// A leader's order for this node.
    Order {
        /// The leader.
        from: NodeId,
        /// What.
        order: Box<Order>,
    },
    /// A leader asks this node for a report.
    Asked {
        /// The leader.
        from: NodeId,
        /// Of which virtual cluster.
        vc: VcName,
        /// Its generation.
        generation: u32,
        /// The leader's term.
        term: Term,
    },
    /// Ask the leader of the `cluster` group whether a node is silent there too; the answer is
    /// [`Silence`](super::GroupHostInput::Silence), also if there is none.
    Question {
        /// The group of the virtual cluster that asks.
        group: GroupId,
        /// What.
        question: SilenceQuestion,
    },
    /// Ask the leader of the `cluster` group to bind a virtual cluster to cells, if anything is asked for or
    /// given back, and then what each is bound to, if that is newer than what is known; the answer is
    /// [`Bound`](super::GroupHostInput::Bound).
    Bind {
        /// The group of the virtual cluster.
        group: GroupId,
        /// Its name.
        vc: VcName,
        /// What is known.
        known: u64,
        /// What is asked for and given back.
        binding: Box<Binding>,
    },
    /// This node leads a group from now on, in this term.
    Leads {
        /// Which.
        group: GroupId,
        /// The term.
        term: u64,
    },
    /// It leads it no more.
    Led {
        /// Which.
        group: GroupId,
    },
    /// An entry was applied.
    Applied {
        /// Of which group.
        group: GroupId,
        /// Its place.
        index: u64,
        /// The entry.
        entry: Vec<u8>,
        /// Whether it changed anything.
        took: bool,
    },
    /// Why nothing can be made durable now; none: it can again.
    Problem(Option<String>),
    /// Something that people may want to know.
    Event(GroupEvent),
}

/// Something that people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// A copy here is no more.
    CopyEnded {
        /// Of which group.
        group: GroupId,
        /// Which.
        replica: ReplicaId,
        /// Why.
        why: Removal,
    },
    /// Nothing was heard for long of a node that has tasks with run leases.
    NodeSilent(id::NodeId),
    /// They are over for certain: the tasks are given up.
    LeasesOver(id::NodeId),
    /// An entry of a log cannot be read, and is skipped on all replicas.
    Unreadable {
        /// Of which group.
        group: GroupId,
        /// Its place.
        index: u64,
        /// Why.
        problem: String,
    },
    /// A coordinator's entry cannot be written: a bug.
    Unwritable(String),
    /// A word for a node is longer than any node takes, and is not said.
    TooLong {
        /// For whom.
        to: NodeId,
    },
}
