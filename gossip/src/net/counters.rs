//! What the network refused, dropped and did, by name.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start of the agent. Shared between tasks; every figure only grows.
        #[derive(Debug, Default)]
        pub struct NetCounters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl NetCounters {
            /// All figures, by name.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Frames sent.
    frames_out,
    /// Bytes of frames sent.
    frame_bytes_out,
    /// Frames received.
    frames_in,
    /// Bytes of frames received.
    frame_bytes_in,
    /// Requests sent.
    requests_out,
    /// Requests received.
    requests_in,
    /// Requests that nobody had room for, or of a member that was removed.
    requests_refused,
    /// Frames to a member that is not known here.
    unknown_member,
    /// Frames that newer ones pushed out of a peer's queue.
    queue_dropped,
    /// Frames that waited for a link for so long that they were of no use.
    stale_dropped,
    /// Frames too long for their carrier.
    oversize_out,
    /// Datagrams thrown away because this member's earlier ones were not yet handled.
    receive_dropped,
    /// Cargo that this node did not send: too much of it waited for the mesh.
    cargo_unsent,
    /// Cargo that was not handed over: too much of it waited for this node's owner, or its sender
    /// is no member any more.
    cargo_dropped,
    /// Links made by this node.
    dialed,
    /// Links made by others.
    accepted,
    /// Dials that came to nothing.
    dial_failed,
    /// Dials that found another key at the address.
    wrong_key,
    /// Links given up for another one to the same member.
    duplicate_link,
    /// Links lost or closed.
    link_closed,
    /// Links whose peer moved to another address.
    moved,
    /// Datagrams that are no packet of QUIC. What looks like one but belongs to no link is not
    /// counted.
    not_quic,
    /// Connections not even answered: too many from one address.
    address_limited,
    /// Connections asked to prove their address first.
    retry_asked,
    /// Connections not answered: too many handshakes at once.
    handshakes_limited,
    /// Handshakes that failed or took too long.
    handshake_failed,
    /// Connections of keys that are no member's, closed because others were waiting already.
    strangers_limited,
    /// Connections of keys that are no member's, closed after their hello was judged.
    strangers_refused,
    /// Connections whose hello was no hello, or of another cluster.
    bad_hello,
    /// Links closed because the member sent something longer than a frame.
    oversize_in,
    /// Links that a peer refused, saying that this node is no member.
    refused_by_peer,
    /// Frames that could not be decoded: garbage, another cluster, another protocol.
    bad_frame,
    /// TCP connections not answered: too many in all or from one address.
    join_limited,
    /// Requests of strangers on the protocol of members.
    join_refused,
    /// Requests answered.
    join_answered,
    /// Requests nobody had time to answer.
    join_dropped,
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts `n`.
pub(crate) fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}
