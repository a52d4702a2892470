//! Why bytes are no frame for this node.

use super::{HEADER_BYTES, PROTOCOL};
use crate::record;

/// Why bytes are no frame for this node. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not even a header.
    #[error("a frame of {0} bytes; its header alone has {HEADER_BYTES}")]
    TooShort(usize),
    /// Not a frame at all.
    #[error("these bytes are no frame of the mesh")]
    Magic,
    /// Of a protocol that this agent does not speak.
    #[error("a frame of protocol {0}; this agent speaks {PROTOCOL}")]
    Protocol(u16),
    /// Of a kind that this agent does not know.
    #[error("a frame of the unknown kind {0}")]
    UnknownKind(u16),
    /// The header's length is not that of the body.
    #[error("the frame says that its body has {0} bytes, which is not so")]
    Length(u32),
    /// Of another cluster.
    #[error("the frame is of another cluster")]
    OtherCluster,
    /// Of this cluster as it was before a disaster recovery.
    #[error("the frame is of generation {0} of this cluster, which is over")]
    OlderGeneration(u32),
    /// Of this cluster after a disaster recovery that this node has not heard of.
    #[error("the frame is of generation {0} of this cluster, which this node does not know yet")]
    NewerGeneration(u32),
    /// Damaged on its way.
    #[error("the frame's checksum is wrong")]
    Checksum,
    /// The body is not what the kind promises.
    #[error("the frame's body is not of its kind")]
    Malformed,
    /// Something follows the body.
    #[error("{0} bytes follow the frame's body")]
    TrailingBytes(usize),
    /// More of something than a frame may have.
    #[error("more {0} than a frame may have")]
    Limit(&'static str),
    /// A record in it is none.
    #[error("the frame carries something that is no record")]
    Record(#[source] record::RecordError),
}
