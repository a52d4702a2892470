//! A record as it is signed, sent and kept.

use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::body::SIGNATURE_BYTES;
use super::{RecordKey, RecordVersion, Vote, WatchBody};
use crate::key::{ClusterId, NodeKey, Sign, Signature, Verify};

/// Most bytes a record may have, with its signature.
pub const RECORD_BYTES_MAX: usize = 16 << 10;

/// Why bytes are no record. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Longer than a record may be.
    #[error("a record of {0} bytes; {RECORD_BYTES_MAX} are the most")]
    TooLong(usize),
    /// Not the form of a record.
    #[error("these bytes are no record")]
    Malformed,
    /// Its body is not of the kind that its key names.
    #[error("the record's body is not what its key says")]
    Body,
    /// Not what its writer signed.
    #[error("the record's signature is wrong")]
    Signature,
    /// Of another cluster.
    #[error("the record is of another cluster")]
    Cluster,
}

/// What is signed.
#[derive(Serialize, Deserialize)]
struct SignedContent<'a> {
    cluster: ClusterId,
    key: RecordKey,
    version: RecordVersion,
    body: &'a [u8],
}

/// A signed statement. Immutable: share it, never copy it.
#[derive(Clone)]
pub struct Record {
    /// What it is about.
    pub key: RecordKey,
    /// Which version.
    pub version: RecordVersion,
    /// Which cluster.
    pub cluster: ClusterId,
    /// Tells it from every other record, in digests.
    pub hash: u64,
    bytes: Box<[u8]>,
    /// Its votes, once somebody has asked for them.
    votes: OnceLock<Result<Box<[Vote]>, RecordError>>,
}

/// All that it says is in its bytes.
impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Record {}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let RecordVersion {
            incarnation,
            number,
        } = self.version;
        write!(f, "Record({:?} v{incarnation}.{number})", self.key)
    }
}

impl Record {
    /// Writes and signs a record.
    ///
    /// # Errors
    /// [`RecordError::TooLong`] or, for a body that cannot be written at all, [`RecordError::Malformed`].
    pub fn sign<B: Serialize>(
        cluster: ClusterId,
        key: RecordKey,
        version: RecordVersion,
        body: &B,
        signer: &dyn Sign,
    ) -> Result<Self, RecordError> {
        let body = postcard::to_stdvec(body).map_err(|_| RecordError::Malformed)?;
        let statement = SignedContent {
            cluster,
            key,
            version,
            body: &body,
        };
        let mut bytes = postcard::to_stdvec(&statement).map_err(|_| RecordError::Malformed)?;
        let signature = signer.sign(&bytes);
        bytes.extend_from_slice(&signature.0);
        Self::decode(&bytes)
    }

    /// Reads a record. Nothing of it may be believed before [`Record::verify`].
    ///
    /// # Errors
    /// When the bytes are too long or not of that form.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(RecordError::TooLong(bytes.len()));
        }
        let split = bytes.len().checked_sub(SIGNATURE_BYTES);
        let signed = split.map(|at| &bytes[..at]).ok_or(RecordError::Malformed)?;
        let (statement, rest) = postcard::take_from_bytes::<SignedContent<'_>>(signed)
            .map_err(|_| RecordError::Malformed)?;
        if !rest.is_empty() {
            return Err(RecordError::Malformed);
        }
        Ok(Self {
            key: statement.key,
            version: statement.version,
            cluster: statement.cluster,
            hash: xxh3_64(bytes),
            bytes: bytes.into(),
            votes: OnceLock::new(),
        })
    }

    /// The bytes as they go over the wire and onto disk, signature included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the record says.
    ///
    /// # Errors
    /// [`RecordError::Body`] when it says something else than its key promises.
    pub fn body<B: DeserializeOwned>(&self) -> Result<B, RecordError> {
        let signed = &self.bytes[..self.bytes.len() - SIGNATURE_BYTES];
        let statement: SignedContent<'_> =
            postcard::from_bytes(signed).map_err(|_| RecordError::Malformed)?;
        let (body, rest) =
            postcard::take_from_bytes(statement.body).map_err(|_| RecordError::Body)?;
        if rest.is_empty() {
            Ok(body)
        } else {
            Err(RecordError::Body)
        }
    }

    /// The votes of a [`RecordKey::Watch`]: read once, and there for all who share the record. A
    /// node's view is put together from those of all watchers, again and again.
    ///
    /// # Errors
    /// As [`Record::body`]; also for a record of another kind.
    pub(crate) fn votes(&self) -> Result<&[Vote], RecordError> {
        let read = || match self.key {
            RecordKey::Watch(_) => Ok(self.body::<WatchBody>()?.votes.into_boxed_slice()),
            _ => Err(RecordError::Body),
        };
        let votes = self.votes.get_or_init(read);
        votes.as_deref().map_err(|error| *error)
    }

    /// Whether `writer` signed this record for this cluster.
    ///
    /// # Errors
    /// [`RecordError::Cluster`] or [`RecordError::Signature`].
    pub fn verify(
        &self,
        cluster: ClusterId,
        writer: &NodeKey,
        verifier: &dyn Verify,
    ) -> Result<(), RecordError> {
        if self.cluster != cluster {
            return Err(RecordError::Cluster);
        }
        let (signed, tail) = self.bytes.split_at(self.bytes.len() - SIGNATURE_BYTES);
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(tail);
        if verifier.verify(writer, signed, &Signature(signature)) {
            Ok(())
        } else {
            Err(RecordError::Signature)
        }
    }
}
