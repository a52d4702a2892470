//! What a coordinator is told.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::NodeId;

use super::bindings::Bindings;
use super::liveness::Cordon;
use super::options::LeaderPolicy;
use crate::fence::Term;
use crate::order::Tell;
use crate::vc::{VcApplied, VcRejection};

/// What can happen to a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorInput {
    /// This node leads from now on.
    Elected {
        /// In this term.
        term: Term,
    },
    /// An entry was applied, or refused when applied. Any leader may have proposed it.
    Applied(Result<VcApplied, VcRejection>),
    /// A node tells something.
    Tell {
        /// The node.
        node: NodeId,
        /// What.
        tell: Tell,
    },
    /// These nodes cannot be reached, or are no members any more: nothing is placed there. All
    /// others may be placed on.
    Unreachable(BTreeSet<NodeId>),
    /// These nodes can be reached. After a recovery nothing is placed before they have reported: what they
    /// run may be known to nobody who is left.
    Reachable(BTreeSet<NodeId>),
    /// These nodes are no members any more.
    Left(BTreeSet<NodeId>),
    /// These nodes are kept free by an admin: nothing is placed there, and what runs there may have
    /// to go. No other is.
    Cordoned(BTreeMap<NodeId, Cordon>),
    /// These nodes stand in these racks, by what the cluster knows since they joined. All others are each in a rack
    /// of its own.
    Racks(BTreeMap<NodeId, String>),
    /// Whether what is placed from now on may hold by run leases: enough voters can renew them. While it
    /// may not, nothing starts anew for the silence of a node.
    Leases(bool),
    /// To nobody who renews leases has the node made itself heard for so many milliseconds: tasks
    /// there whose leases are over by then have ended.
    Silent {
        /// The node.
        node: NodeId,
        /// For how long.
        for_ms: u64,
    },
    /// An admin says that this node is off: what was there has ended.
    Off(NodeId),
    /// The cluster is described so from now on: without physical cells as nodes report it, without
    /// virtual clusters all of it for one. None: that is not known; nothing is placed meanwhile.
    Described(Option<Box<ClusterSpec>>),
    /// What it goes by from now on.
    Policy(Box<LeaderPolicy>),
    /// Whether there is a `cluster` group that binds virtual clusters to cells; else each leader does.
    BoundByCluster(bool),
    /// The answer to [`Output::Bind`](super::CoordinatorOutput::Bind); with what each is bound to, if there is news.
    Bound(Option<Bindings>),
    /// `deadline()` has passed.
    Tick,
}
