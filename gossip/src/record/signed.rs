//! A record as it is signed, sent and kept.

use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::body::SIGNATURE_BYTES;
use super::{RecordKey, Version, Vote, WatchBody};
use crate::key::{ClusterId, NodeKey, Sign, Signature, Verify};

/// Most bytes a record may have, with its signature.
pub const RECORD_BYTES_MAX: usize = 16 << 10;

/// Why bytes are no record. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
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
struct Statement<'a> {
    cluster: ClusterId,
    key: RecordKey,
    version: Version,
    body: &'a [u8],
}

/// A signed statement. Immutable: share it, never copy it.
#[derive(Clone)]
pub struct Record {
    /// What it is about.
    pub key: RecordKey,
    /// Which version.
    pub version: Version,
    /// Which cluster.
    pub cluster: ClusterId,
    /// Tells it from every other record, in digests.
    pub hash: u64,
    bytes: Box<[u8]>,
    /// Its votes, once somebody has asked for them.
    votes: OnceLock<Result<Box<[Vote]>, Error>>,
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
        let Version {
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
    /// [`Error::TooLong`] or, for a body that cannot be written at all, [`Error::Malformed`].
    pub fn sign<B: Serialize>(
        cluster: ClusterId,
        key: RecordKey,
        version: Version,
        body: &B,
        signer: &dyn Sign,
    ) -> Result<Self, Error> {
        let body = postcard::to_stdvec(body).map_err(|_| Error::Malformed)?;
        let statement = Statement {
            cluster,
            key,
            version,
            body: &body,
        };
        let mut bytes = postcard::to_stdvec(&statement).map_err(|_| Error::Malformed)?;
        let signature = signer.sign(&bytes);
        bytes.extend_from_slice(&signature.0);
        Self::decode(&bytes)
    }

    /// Reads a record. Nothing of it may be believed before [`Record::verify`].
    ///
    /// # Errors
    /// When the bytes are too long or not of that form.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > RECORD_BYTES_MAX {
            return Err(Error::TooLong(bytes.len()));
        }
        let split = bytes.len().checked_sub(SIGNATURE_BYTES);
        let signed = split.map(|at| &bytes[..at]).ok_or(Error::Malformed)?;
        let (statement, rest) =
            postcard::take_from_bytes::<Statement<'_>>(signed).map_err(|_| Error::Malformed)?;
        if !rest.is_empty() {
            return Err(Error::Malformed);
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
    /// [`Error::Body`] when it says something else than its key promises.
    pub fn body<B: DeserializeOwned>(&self) -> Result<B, Error> {
        let signed = &self.bytes[..self.bytes.len() - SIGNATURE_BYTES];
        let statement: Statement<'_> =
            postcard::from_bytes(signed).map_err(|_| Error::Malformed)?;
        let (body, rest) = postcard::take_from_bytes(statement.body).map_err(|_| Error::Body)?;
        if rest.is_empty() {
            Ok(body)
        } else {
            Err(Error::Body)
        }
    }

    /// The votes of a [`RecordKey::Watch`]: read once, and there for all who share the record. A
    /// node's view is put together from those of all watchers, again and again.
    ///
    /// # Errors
    /// As [`Record::body`]; also for a record of another kind.
    pub(crate) fn votes(&self) -> Result<&[Vote], Error> {
        let read = || match self.key {
            RecordKey::Watch(_) => Ok(self.body::<WatchBody>()?.votes.into_boxed_slice()),
            _ => Err(Error::Body),
        };
        let votes = self.votes.get_or_init(read);
        votes.as_deref().map_err(|error| *error)
    }

    /// Whether `writer` signed this record for this cluster.
    ///
    /// # Errors
    /// [`Error::Cluster`] or [`Error::Signature`].
    pub fn verify(
        &self,
        cluster: ClusterId,
        writer: &NodeKey,
        verifier: &dyn Verify,
    ) -> Result<(), Error> {
        if self.cluster != cluster {
            return Err(Error::Cluster);
        }
        let (signed, tail) = self.bytes.split_at(self.bytes.len() - SIGNATURE_BYTES);
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(tail);
        if verifier.verify(writer, signed, &Signature(signature)) {
            Ok(())
        } else {
            Err(Error::Signature)
        }
    }
}
