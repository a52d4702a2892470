//! What keeps old orders from doing work: terms, sequence numbers and the node's own epochs.

use serde::{Deserialize, Serialize};

/// A leader's term in its virtual cluster's group.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Term(pub u64);

/// Orders of one virtual cluster to one node compare by this; a node admits only higher ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Fence {
    /// Raised only by disaster recovery of the virtual cluster.
    pub generation: u32,
    /// The leader's term.
    pub term: Term,
    /// Counts the leader's orders to this node, from 1; restarts with each term.
    pub seq: u64,
}

impl Fence {
    /// The place of the leader, without the order's number.
    pub const fn reign(self) -> (u32, Term) {
        (self.generation, self.term)
    }
}

/// Names a node's ledger: random, made when the ledger is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LedgerEpoch(pub u64);

/// Names one life of an agent process: random, made at each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StartId(pub u64);
