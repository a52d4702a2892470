//! Texts that clients keep for us: nobody else can read or change them, and every member can open them, for the
//! key is derived from one that all members share.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::LogLinkKey;
use crate::error::ApiError;

/// One kind of sealed text. A text of one kind is never taken for one of another kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealKind {
    /// What the key is derived for; the members' key signs other things too.
    pub(crate) domain: &'static str,
    /// Longest text, in bytes.
    pub(crate) bytes_max: usize,
}

impl SealKind {
    /// For a client to keep; none if it is too long.
    pub(crate) fn seal(
        self,
        key: &LogLinkKey,
        value: &impl Serialize,
    ) -> Result<Option<String>, ApiError> {
        let failed = || ApiError::Answer("the login could not be sealed".to_owned());
        let mut bytes = serde_json::to_vec(value).map_err(|_| failed())?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| failed())?;
        let sealing = self.key(key).ok_or_else(failed)?;
        sealing
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(self.domain),
                &mut bytes,
            )
            .map_err(|_| failed())?;
        let text = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        Ok((text.len() <= self.bytes_max).then_some(text))
    }

    /// What a client kept; none if no member has sealed it.
    pub(crate) fn open<T: DeserializeOwned>(self, key: &LogLinkKey, text: &str) -> Option<T> {
        if text.len() > self.bytes_max {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self
            .key(key)?
            .open_in_place(nonce, Aad::from(self.domain), &mut sealed)
            .ok()?;
        serde_json::from_slice(opened).ok()
    }

    fn key(self, key: &LogLinkKey) -> Option<LessSafeKey> {
        let shared = hmac::Key::new(hmac::HMAC_SHA256, &key.0);
        let derived = hmac::sign(&shared, self.domain.as_bytes());
        let key = UnboundKey::new(&AES_256_GCM, derived.as_ref()).ok()?;
        Some(LessSafeKey::new(key))
    }
}

/// 256 random bits, in 43 characters.
pub(crate) fn random() -> Result<String, ApiError> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)
        .map_err(|_| ApiError::Answer("the system gives no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: SealKind = SealKind {
        domain: "one\0",
        bytes_max: 100,
    };

    #[test]
    fn a_text_is_opened_with_its_key_and_as_its_kind_alone() {
        let (key, other) = (LogLinkKey([1; 32]), LogLinkKey([2; 32]));
        let text = KIND.seal(&key, &"value").unwrap().unwrap();
        let kind = SealKind {
            domain: "two\0",
            ..KIND
        };
        assert_eq!(KIND.open::<String>(&key, &text).as_deref(), Some("value"));
        assert_eq!(KIND.open::<String>(&other, &text), None);
        assert_eq!(kind.open::<String>(&key, &text), None);
        let changed = format!("A{}", &text[1..]);
        let changed = if changed == text {
            format!("B{}", &text[1..])
        } else {
            changed
        };
        assert_eq!(KIND.open::<String>(&key, &changed), None);
        for short in ["", "AAAA", "=", "\u{e4}"] {
            assert_eq!(KIND.open::<String>(&key, short), None, "{short:?}");
        }
        assert_eq!(KIND.seal(&key, &"x".repeat(90)).unwrap(), None, "too long");
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
