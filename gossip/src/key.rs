//! Keys, and signing as a port: real Ed25519 in `net`, a fast stand-in in the simulator.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An Ed25519 public key: of a node, of the cluster's root, or of the key that signs for the
/// cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeKey(pub [u8; 32]);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({self})")
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Names a cluster: the first 16 bytes of the SHA-256 of its root key.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ClusterId(pub [u8; 16]);

impl ClusterId {
    /// The cluster that has this root key.
    pub fn of_root(root: &NodeKey) -> Self {
        use sha2::{Digest as _, Sha256};
        let mut id = [0; 16];
        id.copy_from_slice(&Sha256::digest(root.0)[..16]);
        Self(id)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// An Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; 64]);

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signature({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// Holds a secret key.
pub trait Sign: fmt::Debug + Send {
    /// The public half.
    fn key(&self) -> NodeKey;
    /// Signs bytes.
    fn sign(&self, bytes: &[u8]) -> Signature;
}

/// Checks signatures.
pub trait Verify: fmt::Debug + Send {
    /// Whether `key` signed these bytes.
    fn verify(&self, key: &NodeKey, bytes: &[u8], signature: &Signature) -> bool;
}
