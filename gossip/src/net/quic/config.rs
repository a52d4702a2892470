//! How the links behave: what may be set, and the bounds that are fixed.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::frame::FRAME_BYTES_MAX;
use crate::key::ClusterId;

/// What may be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuicConfig {
    /// Where to listen. `[::]` takes IPv4 too; a host without IPv6 gets `0.0.0.0` instead.
    pub listen: SocketAddr,
    /// The cluster: said in every hello.
    pub cluster: ClusterId,
    /// A link without a sign of life for so long is closed.
    pub idle: Duration,
    /// New connections a second that one address may try.
    pub address_rate: u32,
}

impl QuicConfig {
    /// The port of the mesh.
    pub const PORT: u16 = 7740;

    /// The usual behaviour.
    pub fn new(cluster: ClusterId) -> Self {
        Self {
            listen: SocketAddr::from((Ipv6Addr::UNSPECIFIED, Self::PORT)),
            cluster,
            idle: Duration::from_secs(10),
            address_rate: 20,
        }
    }
}

/// Handshakes at the same time.
pub(super) const HANDSHAKES_MAX: usize = 128;
/// From this many handshakes on, an address must prove itself first.
pub(super) const HANDSHAKES_TRUSTING: usize = 16;
/// How long a handshake, or the wait for a hello, may take.
pub(super) const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
/// Strangers whose hello is being judged.
pub(super) const HELD_MAX: usize = 64;
/// Strangers at one address whose hello is being judged.
pub(super) const HELD_PER_ADDRESS_MAX: usize = 16;
/// Events about strangers that the mesh has not yet looked at.
pub(super) const STRANGER_EVENTS_MAX: usize = 128;
/// Events that the mesh has not yet looked at.
pub(super) const EVENTS_MAX: usize = 8_192;
/// Datagrams of one member that the mesh has not yet looked at.
pub(super) const LINK_EVENTS_MAX: usize = 512;
/// Dials at the same time.
pub(super) const DIALS_MAX: usize = 128;
/// Addresses of a member that are tried.
pub(super) const ADDRESSES_MAX: usize = 4;
/// The next address is tried this long after the one before.
pub(super) const DIAL_STAGGER: Duration = Duration::from_millis(150);
/// How long one round of dialing may take.
pub(super) const DIAL_TIME: Duration = Duration::from_millis(1_500);
/// A peer that nobody had anything to say to for so long is not dialed again.
pub(super) const WANTED: Duration = Duration::from_secs(3);
/// A link on which nothing came back for so long is given a second chance at another address.
pub(super) const SILENCE: Duration = Duration::from_secs(2);
/// How often silence is looked for.
pub(super) const SILENCE_CHECK: Duration = Duration::from_millis(500);
/// A link that was there for so long was a good one.
pub(super) const LASTING: Duration = Duration::from_secs(3);
/// Two links made by both ends within this time are one meeting.
pub(super) const SIMULTANEOUS: Duration = Duration::from_secs(1);
/// A link that was given up is closed this much later, so that what is on its way arrives.
pub(super) const LINGER: Duration = Duration::from_millis(500);

/// Bytes of a request or an answer: a document and some words.
pub const MESSAGE_BYTES_MAX: usize = 20 << 20;
/// How long a link that another one replaced is kept while requests wait for answers over it.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(20);
/// Requests of a member that are being answered, at most.
pub(super) const REQUESTS_MAX: u32 = 64;
/// Requests of all members that nobody has looked at.
pub(super) const REQUESTS_WAITING_MAX: usize = 256;
/// Streams between two members that one of them has opened, at most.
pub(super) const MESH_STREAMS_MAX: u32 = 256;
/// Bytes of what a stream begins with.
pub(super) const STREAM_HEADER_BYTES_MAX: usize = 256 << 10;
/// Streams of all members that wait to be taken.
pub(super) const STREAMS_WAITING_MAX: usize = 256;
/// Frames that a peer may send at once, each on a QUIC stream of its own.
pub(super) const STREAMS_MAX: u32 = 16;
/// Window of one stream: a frame always fits.
pub(super) const STREAM_WINDOW: u32 = 272 << 10;
const _: () = assert!(STREAM_WINDOW as usize > FRAME_BYTES_MAX);
/// Bytes that a connection may have sent without an acknowledgement.
pub(super) const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of a connection that were not read yet: streams whose readers have stopped leave what the mesh itself sends
/// its room.
pub(super) const RECEIVE_WINDOW: u32 = CONNECTION_WINDOW + MESH_STREAMS_MAX * STREAM_WINDOW;
/// Datagrams that came in and were not yet read.
pub(super) const DATAGRAMS_IN_BYTES: usize = 64 << 10;
/// Datagrams that wait to go out inside the transport.
pub(super) const DATAGRAMS_OUT_BYTES: usize = 16 << 10;
/// The smallest window that congestion may leave.
pub(super) const WINDOW_FLOOR: u64 = 64 << 10;
/// Receive and send buffer asked for the socket.
pub(super) const SOCKET_BYTES: usize = 4 << 20;
