//! This node's copies of Raft groups: those of virtual clusters, and the cluster's own.
//!
//! One loop ([`crate::loops::groups`]) drives the core of this member ([`muster_control::member`]), which has
//! all of them. Here is what it is made of and what others hold of it:
//! - [`Groups`]: asks a group that has a copy here; [`ClusterGroup`] and [`crate::vc`] put words to
//!   the bytes.
//! - [`disk`]: the log store, written beside the loop.
//! - [`aside`]: keeps what is damaged beside it.

mod aside;
pub(crate) mod cluster;
pub(crate) mod disk;
pub(crate) mod elsewhere;
mod events;
pub(crate) mod handle;
pub(crate) mod message;
pub(crate) mod opened;
mod port;

pub(crate) use cluster::ClusterGroup;
pub(crate) use handle::Groups;
