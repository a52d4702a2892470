//! Proves to another member that a certificate is this one's: by the key that all members share.

use aws_lc_rs::hmac;
use muster_tls::Fingerprint;

use crate::config::LogLinkKey;

/// What the proof is of; the key signs other things too.
const DOMAIN: &[u8] = b"muster rest certificate\0";
/// Digits of a nonce.
const NONCE_DIGITS: usize = 32;

/// A certificate, and the members' key.
#[derive(Clone)]
pub(crate) struct CertificateProof {
    key: LogLinkKey,
    certificate: Fingerprint,
}

impl CertificateProof {
    pub(crate) const fn new(key: LogLinkKey, certificate: Fingerprint) -> Self {
        Self { key, certificate }
    }

    /// The proof for a nonce, in hexadecimal digits; none if the nonce has another form.
    pub(crate) fn text(&self, nonce: &str) -> Option<String> {
        let tag = hmac::sign(&self.signing(), &self.message(nonce)?);
        Some(
            tag.as_ref()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        )
    }

    /// Whether somebody who knows the key shows this certificate.
    pub(crate) fn is_right(&self, nonce: &str, text: &[u8]) -> bool {
        let (Some(message), Some(tag)) = (self.message(nonce), bytes(text)) else {
            return false;
        };
        hmac::verify(&self.signing(), &message, &tag).is_ok()
    }

    fn signing(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.key.0)
    }

    fn message(&self, nonce: &str) -> Option<Vec<u8>> {
        let is_nonce =
            nonce.len() == NONCE_DIGITS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_nonce.then(|| [DOMAIN, nonce.as_bytes(), &self.certificate.0].concat())
    }
}

fn bytes(digits: &[u8]) -> Option<Vec<u8>> {
    let digits = std::str::from_utf8(digits).ok()?.trim();
    let pair = |at: usize| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok();
    (0..digits.len().div_ceil(2)).map(pair).collect()
}

/// What nobody has asked before.
pub(crate) fn nonce() -> String {
    let mut random = [0; NONCE_DIGITS / 2];
    // It fails where the system has no randomness; then nothing else works either.
    let filled = aws_lc_rs::rand::fill(&mut random);
    debug_assert!(filled.is_ok());
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_certificate_key_and_nonce() {
        let proof =
            |key: u8, of: u8| CertificateProof::new(LogLinkKey([key; 32]), Fingerprint([of; 32]));
        let (nonce, other) = (nonce(), nonce());
        let text = proof(1, 1).text(&nonce).unwrap();
        assert!(proof(1, 1).is_right(&nonce, text.as_bytes()));
        assert!(!proof(2, 1).is_right(&nonce, text.as_bytes()));
        assert!(!proof(1, 2).is_right(&nonce, text.as_bytes()));
        assert!(!proof(1, 1).is_right(&other, text.as_bytes()));
        assert!(!proof(1, 1).is_right(&nonce, b""));
        for wrong in ["", "zz", &text] {
            assert_eq!(proof(1, 1).text(wrong), None, "{wrong}");
        }
    }
}
