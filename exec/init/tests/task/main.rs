//! Real processes: muster-init as PID 1 of a pid namespace, and its logger.
//!
//! Needs root, for the namespaces; without it the tests say that they were skipped.

// Test code is all there is here, and a failed step is a failed test.
#![allow(clippy::unwrap_used)]

mod agent;
mod bench;
mod commands;
mod hold;
mod lease;
mod life;
mod logs;
mod task;
