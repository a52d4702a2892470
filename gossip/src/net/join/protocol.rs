//! What may be asked.

use libp2p::StreamProtocol;

use crate::join;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// A stranger's: may I join? Anybody may ask that.
    Join,
    /// A member's, to those that settle the cluster's affairs. Members alone.
    Authority,
}

/// Documents are at most 16 MiB; the rest is what is said about them.
const AUTHORITY_BYTES_MAX: usize = 20 << 20;

impl Protocol {
    pub(super) const fn name(self) -> StreamProtocol {
        match self {
            Self::Join => StreamProtocol::new("/muster/join/1"),
            Self::Authority => StreamProtocol::new("/muster/authority/1"),
        }
    }

    /// Longest question, in bytes.
    pub const fn request_bytes_max(self) -> usize {
        match self {
            Self::Join => join::REQUEST_BYTES_MAX,
            Self::Authority => AUTHORITY_BYTES_MAX,
        }
    }

    /// Longest answer, in bytes.
    pub const fn reply_bytes_max(self) -> usize {
        match self {
            Self::Join => join::REPLY_BYTES_MAX,
            Self::Authority => AUTHORITY_BYTES_MAX,
        }
    }
}
