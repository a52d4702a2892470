//! What a coordinator has its caller do.

use muster_model::id::NodeId;

use crate::cluster::Binding;
use crate::order::Order;
use crate::vc::VcEntry;

/// What the caller must do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorOutput {
    /// Commit and apply this entry. May be lost only together with the leadership.
    Propose(Box<VcEntry>),
    /// Send this order; may be lost.
    Send {
        /// To this node.
        node: NodeId,
        /// The order.
        order: Box<Order>,
    },
    /// Ask a node for a report; may be lost.
    AskReport {
        /// The node.
        node: NodeId,
    },
    /// Have the `cluster` group bind the virtual cluster to cells; the answer is [`Input::Bound`](super::CoordinatorInput::Bound). May be
    /// lost.
    Bind {
        /// The version of the bindings that are known; 0 for none.
        known: u64,
        /// What is asked for and given back.
        binding: Box<Binding>,
    },
}
