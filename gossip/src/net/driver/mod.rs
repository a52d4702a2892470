//! The task that owns a [`Mesh`](crate::Mesh): it feeds the core what comes in, performs what it
//! puts out, in order, and keeps it on time.
//!
//! What the core wants kept is on disk before anything that follows it is said, signs of life
//! excepted: an answer to a probe says nothing that a disk could belie. After a stall everything
//! that waits is taken in before the core looks at the time, so that a node which slept does not
//! take others for dead.

mod handle;
mod keep;
mod run;
#[cfg(test)]
mod tests;
mod translate;

pub use handle::{DriverParts, Ended, MeshHandle, Started, start};
pub use keep::{RecordStore, RecordStoreError};
pub use run::DriverError;
