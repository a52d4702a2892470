//! What a joiner claims, and the proof that it may.

use std::fmt;

use hmac::{Hmac, Mac as _};
use muster_model::id::NodeId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::message::{MessageError, REQUEST_BYTES_MAX, read, write};
use super::text::Text;
use super::token::{TokenId, TokenKey};
use crate::key::{ClusterId, NodeKey};

/// What a proof is made for; an HMAC of the same key for another purpose is no proof.
const PROOF_DOMAIN: &[u8] = b"muster join proof 1\0";

/// Random, made anew for each attempt by each side: a proof holds for one attempt.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(pub [u8; 32]);

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// Who wants to join what, by whom, as what. The layout is frozen: proofs are made over it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The cluster.
    pub cluster: ClusterId,
    /// By this token.
    pub token: TokenId,
    /// The joiner's key.
    pub joiner: NodeKey,
    /// The key of the node that the joiner talks to.
    pub node: NodeKey,
    /// The joiner's nonce.
    pub joiner_nonce: Nonce,
    /// That node's nonce.
    pub node_nonce: Nonce,
    /// The name that the joiner wants.
    pub name: NodeId,
    /// Where it stands.
    pub rack: Text<64>,
    /// Version of its agent.
    pub agent_version: Text<64>,
    /// What it understands.
    pub feature_level: u32,
}

/// HMAC-SHA256 of a claim.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Proof(pub [u8; 32]);

/// Proofs are compared by [`Proof::holds`], in constant time; this is for tables of messages.
impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Proof {}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(..)")
    }
}

impl Proof {
    /// Proves a claim.
    ///
    /// # Errors
    /// When the claim cannot be written, which means a bug.
    pub fn new(claim: &Claim, key: &TokenKey) -> Result<Self, MessageError> {
        Ok(Self(mac(claim, key)?.finalize().into_bytes().into()))
    }

    /// Whether this proves the claim. Takes as long for a wrong proof as for a right one.
    pub fn holds(&self, claim: &Claim, key: &TokenKey) -> bool {
        mac(claim, key).is_ok_and(|mac| mac.verify_slice(&self.0).is_ok())
    }
}

fn mac(claim: &Claim, key: &TokenKey) -> Result<Hmac<Sha256>, MessageError> {
    let mut mac = Hmac::new_from_slice(&key.0).map_err(|_| MessageError::Malformed)?;
    mac.update(PROOF_DOMAIN);
    mac.update(&postcard::to_stdvec(claim).map_err(|_| MessageError::Malformed)?);
    Ok(mac)
}

/// A claim with its proof: what the asked node hands to the authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionRequest {
    /// The claim.
    pub claim: Claim,
    /// Its proof, unchecked.
    pub proof: Proof,
}

impl AdmissionRequest {
    /// The admission request as bytes.
    ///
    /// # Errors
    /// When it cannot be written, which means a bug.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        write(self, REQUEST_BYTES_MAX)
    }

    /// Reads an admission request.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        read(bytes, REQUEST_BYTES_MAX)
    }
}
