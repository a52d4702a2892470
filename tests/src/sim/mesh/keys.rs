//! Keys that cost nothing: a signature is a keyed hash. A flipped byte or another key fails, as
//! with the real ones; that anybody could forge one does not matter, since nobody here tries but
//! those who are told to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use muster_gossip::record::Record;
use muster_gossip::{NodeKey, Sign, Signature, Verify};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed, xxh3_128_with_seed};

/// Who signed what, so that nothing can pass that its writer never wrote. By the hash that
/// [`Record::hash`] is.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignatureLedger(Arc<Mutex<HashMap<u64, NodeKey>>>);

impl SignatureLedger {
    /// Whether `key` signed this record.
    pub(crate) fn holds(&self, record: &Record, key: &NodeKey) -> bool {
        let signed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signed.get(&record.hash) == Some(key)
    }

    fn add(&self, key: NodeKey, bytes: &[u8], signature: &Signature) {
        let mut hash = Xxh3::new();
        hash.update(bytes);
        hash.update(&signature.0);
        let mut signed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        signed.insert(hash.digest(), key);
    }
}

/// Signs with a key, and says so in the ledger.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    key: NodeKey,
    ledger: SignatureLedger,
}

impl Signer {
    pub(crate) const fn new(key: NodeKey, ledger: SignatureLedger) -> Self {
        Self { key, ledger }
    }
}

impl Sign for Signer {
    fn key(&self) -> NodeKey {
        self.key
    }

    fn sign(&self, bytes: &[u8]) -> Signature {
        let signature = signature(&self.key, bytes);
        self.ledger.add(self.key, bytes, &signature);
        signature
    }
}

/// Checks signatures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verifier;

impl Verify for Verifier {
    fn verify(&self, key: &NodeKey, bytes: &[u8], signed: &Signature) -> bool {
        *signed == signature(key, bytes)
    }
}

fn signature(key: &NodeKey, bytes: &[u8]) -> Signature {
    let seed = xxh3_64_with_seed(&key.0, 7);
    let hash = xxh3_128_with_seed(bytes, seed).to_le_bytes();
    let mut signature = [0; 64];
    for part in signature.chunks_exact_mut(16) {
        part.copy_from_slice(&hash);
    }
    Signature(signature)
}

/// The key of this kind (`kind`: a node, the root, the signing key) and number.
pub(crate) fn key(seed: u64, kind: u8, number: usize) -> NodeKey {
    let mut bytes = [kind; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    let hash = xxh3_64_with_seed(&bytes, seed);
    bytes[8..16].copy_from_slice(&hash.to_le_bytes());
    NodeKey(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_keys_and_flipped_bytes_fail() {
        let [one, other] = [key(1, 0, 0), key(1, 0, 1)];
        let signer = Signer::new(one, SignatureLedger::default());
        let signed = signer.sign(b"words");
        assert!(Verifier.verify(&one, b"words", &signed));
        assert!(!Verifier.verify(&other, b"words", &signed));
        assert!(!Verifier.verify(&one, b"wards", &signed));
        let mut flipped = signed;
        flipped.0[63] ^= 1;
        assert!(!Verifier.verify(&one, b"words", &flipped));
    }
}
