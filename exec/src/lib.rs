//! Everything a node does to run tasks: container engine, images, logs, hardware.
//!
//! It does not know what a virtual cluster or a job's life cycle is: it is told what to run.

pub mod cgroup;
pub mod diagnose;
pub mod engine;
pub mod figures;
pub mod hardware;
pub mod health;
pub mod image;
pub mod inventory;
pub mod log;
mod oci;
pub mod port;
pub mod preflight;
pub mod stacks;
pub mod storage;
pub mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
