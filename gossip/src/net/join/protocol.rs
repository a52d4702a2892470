//! What may be asked.

use libp2p::StreamProtocol;

use crate::join;

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuestionProtocol {
    /// A stranger's: may I join? Anybody may ask that.
    Join,
    /// A member's: do you hear me, and do I hear you? Members alone. All else goes over the links.
    Echo,
}

/// Bytes of an echo: a few words.
const ECHO_BYTES_MAX: usize = 4 << 10;

impl QuestionProtocol {
    pub(super) const fn name(self) -> StreamProtocol {
        match self {
            Self::Join => StreamProtocol::new("/muster/join/1"),
            Self::Echo => StreamProtocol::new("/muster/echo/1"),
        }
    }

    /// Longest question, in bytes.
    pub const fn request_bytes_max(self) -> usize {
        match self {
            Self::Join => join::REQUEST_BYTES_MAX,
            Self::Echo => ECHO_BYTES_MAX,
        }
    }

    /// Longest answer, in bytes.
    pub const fn reply_bytes_max(self) -> usize {
        match self {
            Self::Join => join::REPLY_BYTES_MAX,
            Self::Echo => ECHO_BYTES_MAX,
        }
    }
}
