//! What can be seen from outside.

use super::input::Verdict;
use crate::frame::Coverage;
use crate::record::Header;

/// What a node knows of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentView {
    /// The newest version and its stage.
    pub header: Header,
    /// Whether all of the newest version's body is here.
    pub have: bool,
    /// What this node found when it checked it.
    pub verdict: Option<Verdict>,
    /// The version in force on this node.
    pub active: Option<u64>,
    /// How far the newest version has come on all nodes.
    pub coverage: Coverage,
}

/// What was dropped, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Headers older than the one known, or of more documents than a cluster may have.
    pub headers_refused: u64,
    /// Versions put in force that are older than the one that was, or of too many documents.
    pub activations_refused: u64,
    /// Bodies of this node's own that no header names.
    pub bodies_wrong: u64,
    /// Lists of chunks that are not what the header names.
    pub lists_wrong: u64,
    /// Chunks that are not what the list names.
    pub chunks_wrong: u64,
    /// Chunks that nobody asked for.
    pub chunks_unasked: u64,
    /// Chunks that came from two members.
    pub chunks_twice: u64,
    /// Chunks that did not come in time.
    pub chunks_late: u64,
    /// Frames beyond what one member may send.
    pub frames_over: u64,
}
