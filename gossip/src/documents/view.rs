//! What can be seen from outside.

use super::input::BodyVerdict;
use crate::counters::counters;
use crate::frame::Coverage;
use crate::record::Header;

/// What a node knows of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDocument {
    /// The newest version and its stage.
    pub header: Header,
    /// Whether all of the newest version's body is here.
    pub have: bool,
    /// What this node found when it checked it.
    pub verdict: Option<BodyVerdict>,
    /// The version in force on this node.
    pub active: Option<u64>,
    /// How far the newest version has come on all nodes.
    pub coverage: Coverage,
}

counters! {
    /// What was dropped of documents, and why.
    struct Counters {
        /// Headers older than the one known, or of more documents than a cluster may have.
        headers_refused,
        /// Versions put in force that are older than the one that was, or of too many documents.
        activations_refused,
        /// Bodies of this node's own that no header names.
        bodies_wrong,
        /// Lists of chunks that are not what the header names.
        lists_wrong,
        /// Chunks that are not what the list names.
        chunks_wrong,
        /// Chunks that nobody asked for.
        chunks_unasked,
        /// Chunks that came from two members.
        chunks_twice,
        /// Chunks that did not come in time.
        chunks_late,
        /// Frames beyond what one member may send.
        frames_over,
    }
}
