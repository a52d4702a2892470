//! Which gang goes where: a pure function of what is free and what waits.
//!
//! It does not reserve anything: each node's ledger still admits or refuses, and a refused plan
//! is simply made again from truer numbers. This crate does not know jobs, attempts or time.
//!
//! Start with [`cells::Cells`] (what there is and who holds it), then the decision. ALGORITHM.md
//! states what is guaranteed and why it holds. [`fifo`] is what the agent still places by.

pub mod bench;
pub mod cells;
mod decide;
pub mod fifo;
pub mod gang;
pub mod history;
mod index;
pub mod random;
pub mod suite;

pub use fifo::*;
pub use decide::{Policy, Refusal, Waiting, decide, preemption_holds, repairs};
