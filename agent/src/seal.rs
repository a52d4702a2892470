//! Sealing of jobs' secrets: they lie in the job record as ciphertext, and are opened only in
//! memory, on the node that runs the task.

use std::fmt;

use chacha20poly1305::aead::{Aead as _, AeadCore as _, KeyInit as _, OsRng, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

const NONCE_BYTES: usize = 24;

/// Secrets that cannot be sealed or opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SealError {
    /// The ciphertext was made with another key, for another job, or is damaged.
    #[error(
        "the job's secrets cannot be opened: they were sealed with another key or for another job"
    )]
    Open,
    /// The cipher refused; only for texts far beyond a job's size.
    #[error("the job's secrets cannot be sealed")]
    Seal,
}

/// The key that seals and opens.
pub(crate) struct Sealer(XChaCha20Poly1305);

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// One with this key.
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(XChaCha20Poly1305::new(key.into()))
    }

    /// Seals `secret` for `owner`: no other job's record can carry it.
    ///
    /// # Errors
    /// Only for texts far beyond a job's size.
    pub(crate) fn seal(&self, owner: &str, secret: &[u8]) -> Result<Vec<u8>, SealError> {
        let nonce = XChaCha20Poly1305::generate_nonce(&mut OsRng);
        let payload = Payload {
            msg: secret,
            aad: owner.as_bytes(),
        };
        let mut sealed = nonce.to_vec();
        sealed.extend(
            self.0
                .encrypt(&nonce, payload)
                .map_err(|_| SealError::Seal)?,
        );
        Ok(sealed)
    }

    /// Opens what was sealed for `owner`.
    ///
    /// # Errors
    /// When it was sealed with another key or for another owner, or is damaged.
    pub(crate) fn open_sealed(&self, owner: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (nonce, text) = sealed
            .split_at_checked(NONCE_BYTES)
            .ok_or(SealError::Open)?;
        let payload = Payload {
            msg: text,
            aad: owner.as_bytes(),
        };
        self.0
            .decrypt(XNonce::from_slice(nonce), payload)
            .map_err(|_| SealError::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_and_the_key_open_it() {
        let sealer = Sealer::new(&[1; 32]);
        let sealed = sealer.seal("alice~x", b"hunter2").unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"hunter2"));
        assert_eq!(sealer.open_sealed("alice~x", &sealed).unwrap(), b"hunter2");
        assert!(sealer.open_sealed("bob~x", &sealed).is_err());
        assert!(sealer.open_sealed("alice~x", &sealed[..10]).is_err());
        let other = Sealer::new(&[2; 32]);
        assert!(other.open_sealed("alice~x", &sealed).is_err());
        let again = Sealer::new(&[1; 32]);
        assert_eq!(again.open_sealed("alice~x", &sealed).unwrap(), b"hunter2");
    }
}
