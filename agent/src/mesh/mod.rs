//! This node among others: what it keeps of its membership, and what runs while it is a member.
//!
//! [`Service`] is the entrance: on its own, founder or member, it takes what users want of the
//! cluster. While the node is a member a [`member::ActiveMembership`] runs the core over the network
//! (`muster_gossip::net`), hears strangers and other members' questions, and puts documents in
//! force.

pub(crate) mod cluster_map;
mod cluster_map_loop;
mod echo;
pub(crate) mod entrance;
mod error;
mod follow_map;
pub(crate) mod inbound;
mod marks_loop;
pub(crate) mod member;
pub(crate) mod membership;
pub(crate) mod peers;
mod seen;
pub(crate) mod service;
pub(crate) mod told;
#[cfg(test)]
pub(crate) mod unsigned;
pub(crate) mod view;

pub(crate) use error::MeshError;
pub(crate) use service::{AFTER_EXPULSION, EXPELLED, Service};
