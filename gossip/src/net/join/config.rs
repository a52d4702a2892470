//! How questions are taken: what may be set, and the bounds that are fixed.

use std::time::Duration;

/// What may be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinNetConfig {
    /// Whether to look for other nodes in the local network by multicast, from the start.
    pub mdns: bool,
    /// New connections a second that one address may try.
    pub address_rate: u32,
}

impl Default for JoinNetConfig {
    fn default() -> Self {
        Self {
            mdns: false,
            address_rate: 20,
        }
    }
}

/// A connection is made, or not, within this time.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(5);
/// A question is answered, or not, within this time.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(15);
/// A connection over which nothing is asked is closed.
pub(super) const IDLE: Duration = Duration::from_secs(10);
/// A stranger's connection ends after this, whatever it is doing.
pub(super) const STRANGER_TIME: Duration = Duration::from_secs(30);
/// Connections being made by others.
pub(super) const PENDING_MAX: usize = 64;
/// The same from one address.
pub(super) const PENDING_PER_ADDRESS_MAX: usize = 16;
/// Connections of strangers.
pub(super) const STRANGERS_MAX: usize = 48;
/// The same from one address.
pub(super) const STRANGERS_PER_ADDRESS_MAX: usize = 16;
/// Connections of one member.
pub(super) const PER_MEMBER_MAX: usize = 4;
/// Questions and answers in one connection at a time, for either protocol; others are dropped.
pub(super) const LETTERS_MAX: usize = 64;
/// Streams in one connection. One more ends all of them, with the connection, so that this is never to be
/// reached: there are two protocols, questions of both sides, and what is being closed.
pub(super) const STREAMS_MAX: usize = 512;
/// Questions of others that nobody has looked at.
pub(super) const INBOUND_MAX: usize = 64;
/// Questions and answers of this node on their way to the sockets.
pub(super) const COMMANDS_MAX: usize = 64;
