//! Which gang goes where: a pure function of what is free and what waits.
//!
//! Start with [`plan`]. It does not reserve anything: each node's ledger still admits or
//! refuses, and a refused plan is simply made again from truer numbers. This crate does not
//! know jobs, attempts or time.
//!
//! Invariant: a plan gives no device to two tasks, nothing that is not free, and each gang all
//! of its places or none. Gangs are placed strictly in turn.

mod cells;
mod explain;
mod plan;
mod queue;

pub use cells::{Cells, Holder, Node, Size};
pub use plan::{Decision, Plan, Slot, plan};
pub use queue::{Gang, Group, Need, Queue};
