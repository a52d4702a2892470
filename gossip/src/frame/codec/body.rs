//! Bodies, by kind. A published body is frozen: a change is a new kind with a number of its own.

use std::sync::Arc;

use postcard::Serializer;
use postcard::ser_flavors::{ExtendFlavor, Flavor, Size};
use serde::de::Deserialize;
use serde::ser::{Serialize, Serializer as _};

use super::FrameError;
use crate::frame::{
    Ack, BUCKETS, BucketDigest, BucketSummary, CHUNK_BYTES, CHUNKS_MAX, Coverage, DocumentFrame,
    MeshFrame, Push, Want,
};
use crate::member::MEMBERS_MAX;
use crate::record::{RECORD_BYTES_MAX, Record};

/// Most records of a push.
const RECORDS_MAX: usize = 4_096;
/// Most numbers of an ack.
const ACKS_MAX: usize = 1_024;
/// Most keys of a summary or a want.
const KEYS_MAX: usize = 32_768;
/// Bytes of a bitmap over members.
const BITMAP_BYTES_MAX: usize = MEMBERS_MAX / 8;

/// Kinds with their numbers on the wire, none of which is ever used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum FrameKind {
    Probe = 1,
    Answer = 2,
    Alert = 3,
    Push = 4,
    Ack = 5,
    Digest = 6,
    Summary = 7,
    Want = 8,
    Cargo = 9,
    Have = 16,
    GetList = 17,
    List = 18,
    GetChunk = 19,
    Chunk = 20,
    Lack = 21,
    Coverage = 22,
}

impl FrameKind {
    const ALL: [Self; 16] = [
        Self::Probe,
        Self::Answer,
        Self::Alert,
        Self::Push,
        Self::Ack,
        Self::Digest,
        Self::Summary,
        Self::Want,
        Self::Cargo,
        Self::Have,
        Self::GetList,
        Self::List,
        Self::GetChunk,
        Self::Chunk,
        Self::Lack,
        Self::Coverage,
    ];

    pub(super) const fn number(self) -> u16 {
        self as u16
    }

    pub(super) fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    pub(super) fn of(frame: &MeshFrame) -> Self {
        match frame {
            MeshFrame::Probe(_) => Self::Probe,
            MeshFrame::Answer(_) => Self::Answer,
            MeshFrame::Alert(_) => Self::Alert,
            MeshFrame::Push(_) => Self::Push,
            MeshFrame::Ack(_) => Self::Ack,
            MeshFrame::Digest(_) => Self::Digest,
            MeshFrame::Summary(_) => Self::Summary,
            MeshFrame::Want(_) => Self::Want,
            MeshFrame::Document(frame) => Self::of_document(frame),
            MeshFrame::Cargo(_) => Self::Cargo,
        }
    }

    fn of_document(frame: &DocumentFrame) -> Self {
        match frame {
            DocumentFrame::Have { .. } => Self::Have,
            DocumentFrame::GetList(_) => Self::GetList,
            DocumentFrame::List { .. } => Self::List,
            DocumentFrame::GetChunk { .. } => Self::GetChunk,
            DocumentFrame::Chunk { .. } => Self::Chunk,
            DocumentFrame::Lack { .. } => Self::Lack,
            DocumentFrame::Coverage(_) => Self::Coverage,
        }
    }
}

/// The body, behind `bytes`.
pub(super) fn append(frame: &MeshFrame, bytes: Vec<u8>) -> Vec<u8> {
    let mut to = Serializer {
        output: ExtendFlavor::new(bytes),
    };
    let written = write(frame, &mut to);
    debug_assert!(written.is_ok(), "a vector takes whatever is written to it");
    to.output.finalize().unwrap_or_default()
}

/// Bytes of the body.
pub(super) fn len(frame: &MeshFrame) -> usize {
    let mut to = Serializer {
        output: Size::default(),
    };
    let counted = write(frame, &mut to);
    debug_assert!(counted.is_ok(), "nothing is written that could fail");
    to.output.finalize().unwrap_or_default()
}

type EncodeResult = postcard::Result<()>;

fn write<F: Flavor>(frame: &MeshFrame, to: &mut Serializer<F>) -> EncodeResult {
    match frame {
        MeshFrame::Probe(probe) => probe.serialize(to),
        MeshFrame::Answer(answer) => answer.serialize(to),
        MeshFrame::Alert(alert) => alert.serialize(to),
        MeshFrame::Push(push) => write_push(push, to),
        MeshFrame::Ack(ack) => ack.serialize(to),
        MeshFrame::Digest(digest) => write_digest(digest, to),
        MeshFrame::Summary(summary) => summary.serialize(to),
        MeshFrame::Want(want) => want.serialize(to),
        MeshFrame::Document(frame) => write_document(frame, to),
        // The frame's length is that of its body: no other is needed.
        MeshFrame::Cargo(bytes) => to.output.try_extend(bytes),
    }
}

fn write_push<F: Flavor>(push: &Push, to: &mut Serializer<F>) -> EncodeResult {
    push.number.serialize(&mut *to)?;
    push.records.len().serialize(&mut *to)?;
    push.records
        .iter()
        .try_for_each(|record| to.serialize_bytes(record.bytes()))
}

/// Sums are as good as random: eight bytes each are shorter than postcard's own form.
fn write_digest<F: Flavor>(digest: &BucketDigest, to: &mut Serializer<F>) -> EncodeResult {
    debug_assert_eq!(digest.buckets.len(), BUCKETS);
    let mut sums = digest.buckets.iter();
    sums.try_for_each(|sum| to.output.try_extend(&sum.to_le_bytes()))
}

fn write_document<F: Flavor>(frame: &DocumentFrame, to: &mut Serializer<F>) -> EncodeResult {
    match frame {
        DocumentFrame::Have { document, chunks } => {
            document.serialize(&mut *to)?;
            to.serialize_bytes(chunks)
        }
        DocumentFrame::GetList(document) | DocumentFrame::Lack { document } => {
            document.serialize(to)
        }
        DocumentFrame::List { document, hashes } => {
            document.serialize(&mut *to)?;
            hashes.len().serialize(&mut *to)?;
            let mut hashes = hashes.iter();
            hashes.try_for_each(|hash| to.output.try_extend(hash))
        }
        DocumentFrame::GetChunk { document, chunk } => (document, chunk).serialize(to),
        DocumentFrame::Chunk {
            document,
            chunk,
            bytes,
        } => {
            (document, chunk).serialize(&mut *to)?;
            to.serialize_bytes(bytes)
        }
        DocumentFrame::Coverage(coverage) => write_coverage(coverage, to),
    }
}

fn write_coverage<F: Flavor>(coverage: &Coverage, to: &mut Serializer<F>) -> EncodeResult {
    coverage.document.serialize(&mut *to)?;
    to.serialize_bytes(&coverage.valid)?;
    to.serialize_bytes(&coverage.rejected)?;
    to.serialize_bytes(&coverage.active)
}

/// Reads a body to its last byte.
pub(super) fn read(kind: FrameKind, bytes: &[u8]) -> Result<MeshFrame, FrameError> {
    let mut from = BodyReader { rest: bytes };
    let frame = match kind {
        FrameKind::Probe => MeshFrame::Probe(from.value()?),
        FrameKind::Answer => MeshFrame::Answer(from.value()?),
        FrameKind::Alert => MeshFrame::Alert(from.value()?),
        FrameKind::Push => MeshFrame::Push(read_push(&mut from)?),
        FrameKind::Ack => MeshFrame::Ack(Ack {
            numbers: from.values("numbers", ACKS_MAX, 1)?,
        }),
        FrameKind::Digest => MeshFrame::Digest(read_digest(&mut from)?),
        FrameKind::Summary => MeshFrame::Summary(BucketSummary {
            buckets: from.values("buckets", BUCKETS, 1)?,
            versions: from.values("versions", KEYS_MAX, 3)?,
        }),
        FrameKind::Want => MeshFrame::Want(Want {
            keys: from.values("keys", KEYS_MAX, 1)?,
        }),
        FrameKind::Cargo => MeshFrame::Cargo(from.all().into()),
        FrameKind::Have => MeshFrame::Document(DocumentFrame::Have {
            document: from.value()?,
            chunks: from.bytes("chunks", CHUNKS_MAX / 8)?.to_vec(),
        }),
        FrameKind::GetList => MeshFrame::Document(DocumentFrame::GetList(from.value()?)),
        FrameKind::List => MeshFrame::Document(DocumentFrame::List {
            document: from.value()?,
            hashes: from.values("hashes", CHUNKS_MAX, size_of::<[u8; 32]>())?,
        }),
        FrameKind::GetChunk => MeshFrame::Document(DocumentFrame::GetChunk {
            document: from.value()?,
            chunk: from.value()?,
        }),
        FrameKind::Chunk => MeshFrame::Document(DocumentFrame::Chunk {
            document: from.value()?,
            chunk: from.value()?,
            bytes: from.bytes("bytes of a chunk", CHUNK_BYTES)?.into(),
        }),
        FrameKind::Lack => MeshFrame::Document(DocumentFrame::Lack {
            document: from.value()?,
        }),
        FrameKind::Coverage => {
            MeshFrame::Document(DocumentFrame::Coverage(read_coverage(&mut from)?))
        }
    };
    match from.rest.len() {
        0 => Ok(frame),
        more => Err(FrameError::TrailingBytes(more)),
    }
}

fn read_push(from: &mut BodyReader<'_>) -> Result<Push, FrameError> {
    let number = from.value()?;
    let count = from.count("records", RECORDS_MAX, crate::record::SIGNATURE_BYTES)?;
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = from.bytes("bytes of a record", RECORD_BYTES_MAX)?;
        records.push(Arc::new(Record::decode(bytes).map_err(FrameError::Record)?));
    }
    Ok(Push { number, records })
}

fn read_digest(from: &mut BodyReader<'_>) -> Result<BucketDigest, FrameError> {
    let sums = from.take(BUCKETS * size_of::<u64>())?;
    let buckets = sums
        .as_chunks()
        .0
        .iter()
        .copied()
        .map(u64::from_le_bytes)
        .collect();
    Ok(BucketDigest { buckets })
}

fn read_coverage(from: &mut BodyReader<'_>) -> Result<Coverage, FrameError> {
    let document = from.value()?;
    let mut bitmap = || Ok(from.bytes("members", BITMAP_BYTES_MAX)?.to_vec());
    Ok(Coverage {
        document,
        valid: bitmap()?,
        rejected: bitmap()?,
        active: bitmap()?,
    })
}

/// What of a body is not read yet.
struct BodyReader<'a> {
    rest: &'a [u8],
}

impl<'a> BodyReader<'a> {
    /// A value without a length of its own.
    fn value<T: Deserialize<'a>>(&mut self) -> Result<T, FrameError> {
        let (value, rest) =
            postcard::take_from_bytes(self.rest).map_err(|_| FrameError::Malformed)?;
        self.rest = rest;
        Ok(value)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], FrameError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(FrameError::Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// How many follow: at most `max`, and no more than there are bytes for, of which each
    /// needs `least`.
    fn count(&mut self, what: &'static str, max: usize, least: usize) -> Result<usize, FrameError> {
        let count: usize = self.value()?;
        if count > max {
            return Err(FrameError::Limit(what));
        }
        if count > self.rest.len() / least {
            return Err(FrameError::Malformed);
        }
        Ok(count)
    }

    fn bytes(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], FrameError> {
        let count = self.count(what, max, 1)?;
        self.take(count)
    }

    fn values<T: Deserialize<'a>>(
        &mut self,
        what: &'static str,
        max: usize,
        least: usize,
    ) -> Result<Vec<T>, FrameError> {
        let count = self.count(what, max, least)?;
        (0..count).map(|_| self.value()).collect()
    }
}
