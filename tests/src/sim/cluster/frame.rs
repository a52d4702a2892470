//! What machines send each other: the mesh's frames, envelopes between group hosts, and requests with their answers, as
//! the agents do.

use std::sync::Arc;

use muster_gossip::frame;

/// What machines send each other.
#[derive(Clone, Debug)]
pub(crate) enum ClusterFrame {
    /// For the mesh's core.
    Mesh(frame::MeshFrame),
    /// For the group host.
    Envelope(Arc<[u8]>),
    /// A request, by this number of who asks.
    Ask(u64, Arc<[u8]>),
    /// The answer to it.
    Answer(u64, Arc<[u8]>),
}

impl ClusterFrame {
    /// Its bytes on the wire but for the mesh's, which counts its own.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Mesh(_) => 0,
            Self::Envelope(bytes) | Self::Ask(_, bytes) | Self::Answer(_, bytes) => {
                bytes.len() + 16
            }
        }
    }
}
