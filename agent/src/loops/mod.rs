//! The agent's tokio tasks, one per file. Each owns what it works on and hands out a handle.

pub(crate) mod engine;
pub(crate) mod node;
pub(crate) mod vc;
pub(crate) mod watchdog;
