//! Records: small signed statements with a single writer each. The newest version replaces all
//! older ones; bytes are relayed as they were signed.

mod body;
mod signed;

pub(crate) use body::SIGNATURE_BYTES;
pub use body::{
    AdmissionState, BEFORE_MAX, BodyId, ClusterBody, Header, HeaderStage, MemberBody,
    NODE_PAYLOAD_MAX, NodeBody, ReplacementBody, SelfHealth, SuspicionLevel, Vote, WatchBody,
};
pub use signed::{RECORD_BYTES_MAX, Record, RecordError};

use serde::{Deserialize, Serialize};

use crate::member::MemberId;

/// What a record is about; one record is kept of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RecordKey {
    /// Generation and signing key of the cluster, signed by the root key.
    Cluster,
    /// An admission, signed by the cluster.
    Member(MemberId),
    /// What a node says of itself, signed by the node.
    Node(MemberId),
    /// Whom a node does not hear of those it watches, signed by the node.
    Watch(MemberId),
    /// The newest version of a document, signed by the cluster.
    Document(DocumentId),
    /// The group that holds the cluster state in place of one that has lost most of its voters,
    /// signed by the cluster. There is none where that never happened.
    Replacement,
}

/// Names a document: a small number of the product's own (1 is the failure rules).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentId(pub u16);

/// Orders the records of one key: incarnation first, then number. Records that the cluster signs
/// have incarnation = generation.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct RecordVersion {
    /// The writer's incarnation, or the cluster's generation.
    pub incarnation: u64,
    /// Counts within the incarnation, from 1.
    pub number: u64,
}
