//! The agent's tokio tasks, one per file. Each owns what it works on and hands out a handle.

pub(crate) mod cluster;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod hardware;
pub(crate) mod images;
pub(crate) mod node;
pub(crate) mod sweep;
pub(crate) mod vc;
pub(crate) mod watchdog;
