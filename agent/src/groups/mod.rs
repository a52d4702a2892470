//! This node's copies of Raft groups: those of virtual clusters, and the cluster's own.
//!
//! One loop ([`crate::loops::groups`]) owns all of them, for they share one disk and one link to
//! every other node. Here is what it is made of and what others hold of it:
//! - [`Groups`]: asks a group that has a copy here; [`ClusterGroup`] and [`crate::vc`] put words to
//!   the bytes.
//! - [`machine`]: what the entries of a group do.
//! - [`lead`]: a virtual cluster that is led here, with its coordinator.
//! - [`disk`]: the log store, written beside the loop.
//! - [`copies`]: who has copies of a group.
//! - [`parcel`]: what agents send each other about groups.
//! - [`name`]: which number a group has.
//! - [`own`]: the virtual clusters of a node that is in no cluster.

pub(crate) mod cluster;
pub(crate) mod copies;
pub(crate) mod disk;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod lead;
pub(crate) mod machine;
pub(crate) mod message;
pub(crate) mod name;
pub(crate) mod opened;
pub(crate) mod own;
pub(crate) mod parcel;

pub(crate) use cluster::ClusterGroup;
pub(crate) use error::Error;
pub(crate) use handle::Groups;
