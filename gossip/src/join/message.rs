//! The messages between a joiner and the node it asks. A published message is frozen: a change
//! takes the next version.

use std::sync::Arc;

use muster_model::id::NodeId;
use serde::{Deserialize, Serialize};

use super::bounded;
use super::claim::{Nonce, Proof};
use super::refusal::JoinRefusal;
use super::text::Text;
use super::token::TokenId;
use crate::key::NodeKey;
use crate::record::Record;

/// First byte of every message.
const VERSION: u8 = 1;
/// Most bytes of what a joiner sends.
pub const REQUEST_BYTES_MAX: usize = 2 << 10;
/// Most bytes of what it gets. A welcome carries as many seeds as fit.
pub const REPLY_BYTES_MAX: usize = 64 << 10;
/// Most members that a welcome names.
pub const SEEDS_MAX: usize = 32;
/// Each seed is an admission and what the node says of itself.
pub(super) const SEED_RECORDS_MAX: usize = 2 * SEEDS_MAX;

/// Why bytes are no message. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Of a release that this one does not understand, or empty.
    #[error("version {0:?} of the join protocol is not known; install the same release")]
    Version(Option<u8>),
    /// Longer than a message may be.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// Not the form of a message.
    #[error("these bytes are no message of the join protocol")]
    Malformed,
}

/// What a joiner sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinerMessage {
    /// First.
    Hello(Hello),
    /// Second.
    Prove(Prove),
}

/// A stranger says who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its key; the connection must prove the same one.
    pub key: NodeKey,
    /// Its nonce.
    pub nonce: Nonce,
    /// The name it wants.
    pub name: NodeId,
    /// Where it stands; empty if nobody said.
    pub rack: Text<64>,
    /// Version of its agent.
    pub agent_version: Text<64>,
    /// What it understands.
    pub feature_level: u32,
}

/// It proves that it may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prove {
    /// By which token.
    pub token: TokenId,
    /// The HMAC.
    pub proof: Proof,
}

/// What a joiner is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinReply {
    /// To a hello.
    Challenge(Challenge),
    /// To a proof that holds.
    Welcome(Welcome),
    /// To anything.
    Refused(JoinRefused),
}

/// The asked node says who it is, so that the joiner can tell whether to prove anything to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The cluster's key, signed by the root key.
    #[serde(with = "bounded::one")]
    pub cluster: Arc<Record>,
    /// The asked node's admission.
    #[serde(with = "bounded::one")]
    pub member: Arc<Record>,
    /// Its nonce.
    pub nonce: Nonce,
}

/// The joiner is a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Its admission.
    #[serde(with = "bounded::one")]
    pub member: Arc<Record>,
    /// The cluster's key, signed by the root key.
    #[serde(with = "bounded::one")]
    pub cluster: Arc<Record>,
    /// Admissions of other members and what those nodes say of themselves: whom to call first.
    #[serde(with = "bounded::list")]
    pub seeds: Vec<Arc<Record>>,
}

/// It is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRefused {
    /// Why.
    pub refusal: JoinRefusal,
    /// When to try again, in ms; 0 if that cannot help.
    pub retry_ms: u32,
}

impl JoinerMessage {
    /// The message as bytes.
    ///
    /// # Errors
    /// When it is longer than [`REQUEST_BYTES_MAX`], which a checked name cannot cause.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        write(self, REQUEST_BYTES_MAX)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        read(bytes, REQUEST_BYTES_MAX)
    }
}

impl JoinReply {
    /// The message as bytes.
    ///
    /// # Errors
    /// When it is longer than [`REPLY_BYTES_MAX`]; [`Welcome::new`] makes none that are.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        write(self, REPLY_BYTES_MAX)
    }

    /// Reads a message. Nothing of its records may be believed yet.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        read(bytes, REPLY_BYTES_MAX)
    }
}

impl Welcome {
    /// Room for what is not records.
    const FRAME_BYTES: usize = 16;
    /// Most bytes of a record's length.
    const LENGTH_BYTES: usize = 3;

    /// A welcome with as many of these records as it can carry, the first ones first.
    pub fn new(
        member: Arc<Record>,
        cluster: Arc<Record>,
        seeds: impl IntoIterator<Item = Arc<Record>>,
    ) -> Self {
        let size = |record: &Record| record.bytes().len() + Self::LENGTH_BYTES;
        let mut left = REPLY_BYTES_MAX - Self::FRAME_BYTES;
        left = left.saturating_sub(size(&member) + size(&cluster));
        let fits = |record: &Arc<Record>| {
            let rest = left.checked_sub(size(record));
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let seeds = seeds.into_iter().take(SEED_RECORDS_MAX).filter(fits);
        Self {
            seeds: seeds.collect(),
            member,
            cluster,
        }
    }
}

pub(super) fn write<M: Serialize>(message: &M, max: usize) -> Result<Vec<u8>, MessageError> {
    let bytes = postcard::to_extend(message, vec![VERSION]);
    let bytes = bytes.map_err(|_| MessageError::Malformed)?;
    if bytes.len() > max {
        return Err(MessageError::TooLong(bytes.len()));
    }
    Ok(bytes)
}

pub(super) fn read<'a, M: Deserialize<'a>>(bytes: &'a [u8], max: usize) -> Result<M, MessageError> {
    if bytes.len() > max {
        return Err(MessageError::TooLong(bytes.len()));
    }
    let [VERSION, body @ ..] = bytes else {
        return Err(MessageError::Version(bytes.first().copied()));
    };
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(MessageError::Malformed),
    }
}
