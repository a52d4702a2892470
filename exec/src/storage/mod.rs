//! Storages of a cluster on this node: mounted at the first use, shared by tasks, checked while they are used, unmounted
//! when they are idle.
//!
//! Nothing here touches a file of a storage: each step is a process of its own (muster-init's
//! [`storage`](muster_init::storage) mode) that is given up when it takes too long, as with a server that is gone. So
//! a dead server fails the tasks that need it, and nothing else waits.

mod error;
pub mod files;
mod mounts;
mod slot;
mod source;
mod step_runner;

pub use error::StorageError;
pub use mounts::{LostStorage, StorageMounts, StorageTimes};
pub use muster_init::storage::AttachedPlace;
pub use muster_init::storage::files::{
    FileDone, FileEntry, FileEntryKind, FileProblemKind, FileStep, ProbeDone, ReadStep, WriteStep,
};
pub use slot::StorageUser;
pub use source::{MountSource, StorageUse};
pub use step_runner::StorageStepRunner;

#[cfg(test)]
mod tests;
