//! Which gang goes where: a pure function of what is free and what waits.
//!
//! It does not reserve anything: each node's ledger still admits or refuses, and a refused plan
//! is simply made again from truer numbers. This crate does not know jobs or attempts, and is
//! told the time.
//!
//! Start with [`cells::Cells`] (what there is, to whom it is promised, who holds it), then
//! [`decide::decide`] for one gang and [`plan::plan`] for all that wait. ALGORITHM.md states what
//! is guaranteed and why it holds. [`suite`], [`history`], [`bench`](mod@bench) and [`sim`] put it
//! to the test; [`explain`](mod@explain) says why a gang waits.

pub mod amount;
pub mod bench;
pub mod cells;
pub mod decide;
pub mod description;
pub mod explain;
pub mod gang;
pub mod history;
mod index;
pub mod plan;
pub mod queue;
pub mod random;
pub mod sim;
pub mod suite;
