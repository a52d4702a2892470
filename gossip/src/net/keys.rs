//! Real keys: Ed25519, the same for libp2p, quinn and records.

use libp2p::PeerId;
use libp2p::identity::{Keypair, PublicKey, ed25519};

use crate::key::{NodeKey, Sign, Signature, Verify};

/// Why bytes are no secret key. The file may be of another program, or cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "these {0} bytes are no Ed25519 secret key: expected a seed of 32 bytes, or a libp2p key pair \
     in protobuf"
)]
pub struct KeyError(pub usize);

/// Bytes of a seed.
const SEED_BYTES: usize = 32;

/// A secret key of this node, of the cluster's root, or the one that signs for the cluster.
#[derive(Clone)]
pub struct Ed25519Signer {
    pair: ed25519::Keypair,
    key: NodeKey,
}

impl std::fmt::Debug for Ed25519Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ed25519Signer({})", self.key)
    }
}

impl Ed25519Signer {
    /// A new key from the system's randomness.
    pub fn generate() -> Self {
        Self::of(ed25519::Keypair::generate())
    }

    /// The key that a file holds: a seed of 32 bytes, or libp2p's protobuf.
    ///
    /// # Errors
    /// [`KeyError`] for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let pair = if bytes.len() == SEED_BYTES {
            Keypair::ed25519_from_bytes(bytes.to_vec())
        } else {
            Keypair::from_protobuf_encoding(bytes)
        };
        let pair = pair.map_err(|_| KeyError(bytes.len()))?;
        let pair = pair.try_into_ed25519().map_err(|_| KeyError(bytes.len()))?;
        Ok(Self::of(pair))
    }

    /// The seed to keep in a file that only the agent may read.
    pub fn seed(&self) -> [u8; SEED_BYTES] {
        let mut seed = [0; SEED_BYTES];
        seed.copy_from_slice(self.pair.secret().as_ref());
        seed
    }

    /// As libp2p wants it.
    pub fn keypair(&self) -> Keypair {
        self.pair.clone().into()
    }

    fn of(pair: ed25519::Keypair) -> Self {
        let key = NodeKey(pair.public().to_bytes());
        Self { pair, key }
    }
}

impl Sign for Ed25519Signer {
    fn key(&self) -> NodeKey {
        self.key
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        let mut signature = [0; 64];
        signature.copy_from_slice(&self.pair.sign(bytes));
        Signature(signature)
    }
}

/// Checks Ed25519 signatures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ed25519Verifier;

impl Verify for Ed25519Verifier {
    fn verify(&self, key: &NodeKey, bytes: &[u8], signature: &Signature) -> bool {
        ed25519::PublicKey::try_from_bytes(&key.0).is_ok_and(|key| key.verify(bytes, &signature.0))
    }
}

/// The name libp2p has for a node; none if the bytes are no key.
pub fn peer_id(key: &NodeKey) -> Option<PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&key.0).ok()?;
    Some(PublicKey::from(key).to_peer_id())
}

/// The key that a libp2p name is made of; none if it is no Ed25519 key.
pub fn node_key(peer: &PeerId) -> Option<NodeKey> {
    let key = PublicKey::try_decode_protobuf(peer.as_ref().digest()).ok()?;
    Some(NodeKey(key.try_into_ed25519().ok()?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_in_both_forms() {
        let signer = Ed25519Signer::generate();
        let protobuf = signer.keypair().to_protobuf_encoding().unwrap();
        for bytes in [signer.seed().to_vec(), protobuf] {
            assert_eq!(
                Ed25519Signer::from_bytes(&bytes).unwrap().key(),
                signer.key()
            );
        }
    }

    #[test]
    fn other_bytes_are_no_key() {
        for bytes in [&[][..], &[1; 31], &[0; 68]] {
            let error = Ed25519Signer::from_bytes(bytes).unwrap_err();
            assert_eq!(error, KeyError(bytes.len()));
        }
    }

    #[test]
    fn a_signature_holds_for_its_key_and_bytes_alone() {
        let (signer, other) = (Ed25519Signer::generate(), Ed25519Signer::generate());
        let signature = signer.sign(b"hello");
        let holds = |key, bytes| Ed25519Verifier.verify(&key, bytes, &signature);
        assert!(holds(signer.key(), b"hello"));
        assert!(!holds(other.key(), b"hello"));
        assert!(!holds(signer.key(), b"hullo"));
        assert!(!holds(NodeKey([0xff; 32]), b"hello"));
    }

    #[test]
    fn a_peer_id_is_the_key() {
        let signer = Ed25519Signer::generate();
        let peer = peer_id(&signer.key()).unwrap();
        assert_eq!(peer, signer.keypair().public().to_peer_id());
        assert_eq!(node_key(&peer), Some(signer.key()));
    }

    #[test]
    fn debug_shows_no_secret() {
        let signer = Ed25519Signer::generate();
        let text = format!("{signer:?}");
        assert_eq!(text, format!("Ed25519Signer({})", signer.key()));
    }
}
