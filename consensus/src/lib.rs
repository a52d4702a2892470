//! The replicated log under a [`StateMachine`]: bytes in, bytes kept, the same state out.
//!
//! A [`Group`] orders entries, makes them durable and applies them. Today a group has one voter,
//! this node: what its disk holds is committed. What an entry means is the machine's business;
//! this crate never looks inside.
//!
//! Invariant: an entry is applied only after it is durable, in index order, and never twice to
//! one state. A crash between any two steps loses nothing that [`Group::commit`] returned for.

mod group;
mod log;
mod machine;

pub use group::{Group, Options};
pub use log::Error;
pub use machine::{RestoreError, StateMachine};
