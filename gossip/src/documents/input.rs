//! The words between [`Documents`](super) and whoever drives it.

use std::sync::Arc;

use crate::frame::{Carrier, DocumentFrame, DocumentRef};
use crate::member::MemberId;

/// What a node found when it checked a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyVerdict {
    /// It can be put in force.
    Valid,
    /// It cannot, with the reason.
    Rejected(String),
}

/// What happens to documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentsInput {
    /// This node has a body: read from its disk, or just edited here. Checked against its hash
    /// like any other.
    Body {
        /// Of which.
        document: DocumentRef,
        /// The whole body.
        body: Arc<[u8]>,
    },
    /// The body was checked.
    Checked {
        /// Of which.
        document: DocumentRef,
        /// With this result.
        verdict: BodyVerdict,
    },
    /// It is in force on this node (at start: it was).
    Active(DocumentRef),
}

/// What has to be done for documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentsOutput {
    /// Send a frame.
    Send {
        /// To whom.
        to: MemberId,
        /// How.
        carrier: Carrier,
        /// What.
        frame: DocumentFrame,
    },
    /// Keep a body on disk, then check it and answer with [`DocumentsInput::Checked`].
    Check {
        /// Of which.
        document: DocumentRef,
        /// The whole body, hash verified.
        body: Arc<[u8]>,
    },
    /// Put it in force and answer with [`DocumentsInput::Active`].
    Activate(DocumentRef),
    /// Bodies of a document's other versions may be removed from disk: keep these only. All are of
    /// one document; bodies of others are not meant.
    Retain(Vec<DocumentRef>),
}

impl DocumentsOutput {
    /// Documents' frames all go over streams: most are larger than a datagram, and the small ones
    /// are worth a resend.
    pub(super) const fn stream(to: MemberId, frame: DocumentFrame) -> Self {
        Self::Send {
            to,
            carrier: Carrier::Stream,
            frame,
        }
    }
}
