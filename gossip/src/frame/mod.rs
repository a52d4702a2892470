//! Messages between nodes.
//!
//! On the wire: magic, protocol, kind, length, cluster, generation, checksum, then the body in
//! postcard. [`codec`] does that; cores see [`MeshFrame`]. A published body is frozen: a change is a
//! new kind.

pub mod codec;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::member::Incarnation;
use crate::record::{DocumentId, Record, RecordKey, RecordVersion, SelfHealth};

/// How a frame travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// One datagram: at once or not at all.
    Datagram,
    /// A stream of its own: arrives unless the connection breaks; no order among frames.
    Stream,
}

/// Largest frame that goes into a datagram.
pub const DATAGRAM_BYTES_MAX: usize = 1_150;
/// Largest frame at all.
pub const FRAME_BYTES_MAX: usize = 256 << 10;
/// Most bytes of cargo in one frame.
pub const CARGO_BYTES_MAX: usize = FRAME_BYTES_MAX - codec::HEADER_BYTES;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshFrame {
    /// A watcher asks for a sign of life.
    Probe(Probe),
    /// The sign of life.
    Answer(ProbeAnswer),
    /// A watcher missed answers of `subject`: its other watchers look at once.
    Alert(Alert),
    /// Records that may be new to the receiver.
    Push(Push),
    /// These pushes arrived.
    Ack(Ack),
    /// What the sender has, by bucket: asks to be told of what differs.
    Digest(BucketDigest),
    /// What the sender has in buckets that differ.
    Summary(BucketSummary),
    /// Asks for records.
    Want(Want),
    /// Of documents' bodies.
    Document(DocumentFrame),
    /// Bytes that the mesh carries for its owner and does not look into: at most
    /// [`CARGO_BYTES_MAX`].
    Cargo(Arc<[u8]>),
}

/// A watcher asks for a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Comes back in the answer.
    pub number: u32,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// Digest of all records the sender has.
    #[serde(with = "postcard::fixint::le")]
    pub root: u64,
}

/// The sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// The probe's number.
    pub number: u32,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// Digest of all records the sender has.
    #[serde(with = "postcard::fixint::le")]
    pub root: u64,
    /// How it feels.
    pub health: SelfHealth,
    /// When this watcher may ask next, in ms: spreads the watchers evenly over the second.
    pub next_ms: u16,
}

/// A watcher missed answers of `subject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Who does not answer.
    pub subject: crate::member::MemberId,
    /// Which life of it.
    pub incarnation: Incarnation,
}

/// Records that may be new to the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// Comes back in the ack; 0 asks for none.
    pub number: u32,
    /// The records; shared, never copied.
    pub records: Vec<Arc<Record>>,
}

/// These pushes arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// Their numbers.
    pub numbers: Vec<u32>,
}

/// Buckets of a digest.
pub const BUCKETS: usize = 256;

/// What the sender has, by bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketDigest {
    /// [`BUCKETS`] sums of record hashes.
    pub buckets: Vec<u64>,
}

/// What the sender has in buckets that differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSummary {
    /// Which buckets, ascending.
    pub buckets: Vec<u16>,
    /// Everything in them.
    pub versions: Vec<(RecordKey, RecordVersion)>,
}

/// Asks for records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// Which.
    pub keys: Vec<RecordKey>,
}

/// A document's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DocumentRef {
    /// Which document.
    pub id: DocumentId,
    /// Which version.
    pub version: u64,
}

/// Bytes of every chunk of a body but its last.
pub const CHUNK_BYTES: usize = 64 << 10;
/// Most chunks of a body.
pub const CHUNKS_MAX: usize = 256;

/// Of documents' bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentFrame {
    /// What the sender has of a body: one bit a chunk. An empty bitmap asks for the receiver's.
    Have {
        /// Of which.
        document: DocumentRef,
        /// One bit a chunk, lowest first.
        chunks: Vec<u8>,
    },
    /// Asks for the hashes of all chunks.
    GetList(DocumentRef),
    /// The hashes of all chunks, SHA-256 each.
    List {
        /// Of which.
        document: DocumentRef,
        /// In order.
        hashes: Vec<[u8; 32]>,
    },
    /// Asks for a chunk.
    GetChunk {
        /// Of which.
        document: DocumentRef,
        /// Its index.
        chunk: u32,
    },
    /// A chunk.
    Chunk {
        /// Of which.
        document: DocumentRef,
        /// Its index.
        chunk: u32,
        /// At most 64 KiB; shared, never copied.
        bytes: Arc<[u8]>,
    },
    /// The sender does not have what was asked for.
    Lack {
        /// Of which.
        document: DocumentRef,
    },
    /// What the sender knows of how far a version has come on all nodes.
    Coverage(Coverage),
}

/// How far a version has come, as bitmaps over member numbers, each only ever growing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Of which.
    pub document: Option<DocumentRef>,
    /// Have it and found it valid.
    pub valid: Vec<u8>,
    /// Have it and found it bad.
    pub rejected: Vec<u8>,
    /// Have it in force.
    pub active: Vec<u8>,
}
