//! What the network tells the mesh, and the mesh the network.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::frame::{Carrier, MeshFrame};
use crate::key::NodeKey;
use crate::member::MemberId;

/// A member as the network needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// Its number.
    pub id: MemberId,
    /// Its key: nobody else may be it.
    pub key: NodeKey,
    /// Where to dial it, best first; empty if nobody knows yet.
    pub addresses: Vec<SocketAddr>,
}

/// How a frame goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A sign of life: before everything else, and useless when late.
    Liveness,
    /// A datagram.
    Datagram,
    /// A stream of its own.
    Stream,
    /// In order: a link's frames of this lane arrive as they were given, and wait for no other
    /// lane. A link that breaks loses what is on its way.
    Ordered,
}

impl Lane {
    /// The lane of a frame that the mesh wants sent by `carrier`.
    pub fn of(frame: &MeshFrame, carrier: Carrier) -> Self {
        match (frame, carrier) {
            (MeshFrame::Cargo(_), _) => Self::Ordered,
            (_, Carrier::Stream) => Self::Stream,
            (
                MeshFrame::Probe(_) | MeshFrame::Answer(_) | MeshFrame::Alert(_),
                Carrier::Datagram,
            ) => Self::Liveness,
            (_, Carrier::Datagram) => Self::Datagram,
        }
    }
}

/// A place in the queue of what came in, free again when this is dropped.
#[derive(Debug)]
pub struct QueueSlot(
    #[allow(dead_code, reason = "held, never read")] pub(super) OwnedSemaphorePermit,
);

/// Why a connection is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// No member has this key, says this node or the mesh.
    Stranger,
    /// Too many strangers at once.
    Busy,
    /// Another link to the same member took its place.
    Duplicate,
    /// A member no more.
    Removed,
    /// What it said is no hello.
    Malformed,
    /// It sent something longer than a frame.
    Oversize,
    /// Its hello names another cluster.
    OtherCluster,
    /// It said nothing in time, or nobody judged it in time.
    Late,
    /// The agent ends.
    Shutdown,
    /// The other side said so, with this code.
    Peer(u64),
}

impl ConnectionRefusal {
    /// The code it is closed with.
    pub const fn code(self) -> u32 {
        match self {
            Self::Stranger => 1,
            Self::Busy => 2,
            Self::Duplicate => 3,
            Self::Removed => 4,
            Self::Malformed => 5,
            Self::Oversize => 6,
            Self::OtherCluster => 7,
            Self::Late => 8,
            Self::Shutdown | Self::Peer(_) => 9,
        }
    }

    /// The same for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Stranger => "this key is no member's",
            Self::Busy => "too many strangers at once",
            Self::Duplicate => "another link took its place",
            Self::Removed => "a member no more",
            Self::Malformed => "that was no hello",
            Self::Oversize => "longer than a frame may be",
            Self::OtherCluster => "of another cluster",
            Self::Late => "no word in time",
            Self::Shutdown => "the agent ends",
            Self::Peer(_) => "refused by the other side",
        }
    }

    /// Whether the other side is told by it that it is no member.
    pub(super) const fn is_final(code: u64) -> bool {
        matches!(code, 1 | 4 | 7)
    }
}

/// What the network tells the mesh.
#[derive(Debug)]
pub enum NetEvent {
    /// A member sent a frame; not yet decoded.
    Frame {
        /// Whose key the connection has proven.
        from: MemberId,
        /// As it came.
        bytes: Bytes,
        /// Keep it till the frame is handled: it bounds what one member may have waiting here.
        ticket: QueueSlot,
    },
    /// Somebody unknown has connected and says that this record admits it. Judge it, then give
    /// the new list of members, or refuse its key.
    Hello {
        /// The key that the connection has proven.
        key: NodeKey,
        /// Where it came from.
        address: SocketAddr,
        /// What it says: bytes of its `Member` record; empty if it has none.
        record: Bytes,
        /// As for frames.
        ticket: QueueSlot,
    },
    /// A connection was refused, here or by the other side.
    Refused {
        /// The key that was proven.
        key: NodeKey,
        /// Where.
        address: SocketAddr,
        /// Why.
        reason: ConnectionRefusal,
        /// As for frames.
        ticket: QueueSlot,
    },
    /// There is a link. The other side may still refuse it.
    Connected {
        /// To whom.
        member: MemberId,
        /// Where.
        address: SocketAddr,
    },
    /// There is none any more.
    Disconnected {
        /// To whom.
        member: MemberId,
    },
}

/// A link as people want to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// To whom.
    pub member: MemberId,
    /// Where.
    pub address: SocketAddr,
    /// Whether this node dialed.
    pub dialed: bool,
    /// Round trip, smoothed, in microseconds.
    pub rtt_us: u64,
    /// Largest UDP payload that is known to pass, in bytes.
    pub mtu_bytes: u16,
    /// UDP payload sent so far, in bytes.
    pub sent_bytes: u64,
    /// UDP payload received so far, in bytes.
    pub received_bytes: u64,
    /// Packets lost on the way there.
    pub lost_packets: u64,
}
