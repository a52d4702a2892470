//! The replicated log under a [`StateMachine`]: bytes in, bytes kept on several nodes, the same
//! state out.
//!
//! A [`Host`] holds a node's copies of all groups. Raft (raft-rs) decides what is committed; the
//! host gives it time and randomness, puts the writes of all groups into one sync and their
//! messages for one node into one frame, and applies what is committed. A [`LogStore`] is the
//! file under it. What an entry means is the machine's business; this crate never looks inside.
//!
//! Invariants:
//! - Nobody hears of a promise (a vote, an entry) before it is durable.
//! - An entry is applied only after a majority of the voters holds it durably, in index order,
//!   and never twice to one state.
//! - A copy whose disk is lost or damaged never answers for the promises it made: its group
//!   removes it, and another copy with a new number learns in its place.

mod host;
mod id;
mod input;
mod machine;
mod membership;
mod memory;
mod options;
mod outbox;
mod output;
mod replica;
mod store;
mod transfer;
mod voting;
mod wire;
mod write;

pub use host::{GroupView, Host};
pub use id::{GroupId, NodeId, ReplicaHome, ReplicaId, StoreId};
pub use input::{HostInput, Ticket};
pub use machine::{RestoreError, StateMachine};
pub use membership::{GroupMembership, ReplicaChange, Unfit};
pub use options::HostOptions;
pub use output::{HostOutput, HostRefusal, Removal};
pub use store::{Damaged, LogStore, StoreError, Stored, StoredGroup};
pub use voting::Voting;
pub use wire::FRAME_BYTES;
pub use write::{Promise, StoredChange, Write};
