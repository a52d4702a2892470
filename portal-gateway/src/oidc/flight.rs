//! A login under way. The browser carries it, sealed with a key that all members share, so that any of
//! them can end it; and only the browser that began it can.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::config::LogLinkKey;
use crate::error::ApiError;

/// What the key is derived for; the members' key signs other things too.
const DOMAIN: &[u8] = b"muster oidc login\0";
/// How long a person may take at the provider, in seconds.
pub(crate) const LIFE_S: u64 = 600;
/// Longest sealed login, in bytes: browsers keep 4,096 of a cookie.
const SEALED_MAX: usize = 3_800;

/// What has to be known when the browser comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoginFlight {
    /// Comes back with the code. It ties the answer to the login that this browser began.
    pub(crate) state: String,
    /// Comes back in the ID token.
    pub(crate) nonce: String,
    /// The code verifier of PKCE (RFC 7636): the provider asks for it when the code is redeemed.
    pub(crate) verifier: String,
    /// Where the provider sends the browser.
    pub(crate) return_uri: String,
    /// Where the browser goes then, with its token.
    pub(crate) redirect_uri: String,
    /// Passed on to there.
    pub(crate) from: String,
    /// Good until then, seconds since the epoch.
    pub(crate) until_s: u64,
}

impl LoginFlight {
    /// One that begins now.
    pub(crate) fn begin(
        return_uri: String,
        (redirect_uri, from): (String, String),
        now_s: u64,
    ) -> Result<Self, ApiError> {
        Ok(Self {
            state: random()?,
            nonce: random()?,
            verifier: random()?,
            return_uri,
            redirect_uri,
            from,
            until_s: now_s.saturating_add(LIFE_S),
        })
    }

    /// What the provider is shown of the verifier.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, self.verifier.as_bytes()))
    }

    /// For the browser to keep.
    pub(crate) fn seal(&self, key: &LogLinkKey) -> Result<String, ApiError> {
        let failed = || ApiError::Answer("the login could not be sealed".to_owned());
        let mut bytes = serde_json::to_vec(self).map_err(|_| failed())?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| failed())?;
        let sealing = sealing(key).ok_or_else(failed)?;
        let sealed = Nonce::assume_unique_for_key(nonce);
        sealing
            .seal_in_place_append_tag(sealed, Aad::from(DOMAIN), &mut bytes)
            .map_err(|_| failed())?;
        let text = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        match text.len() > SEALED_MAX {
            true => Err(ApiError::Parameters(
                "redirect_uri and from are too long".to_owned(),
            )),
            false => Ok(text),
        }
    }

    /// What a browser kept; none if no member has sealed it, or its time is over.
    pub(crate) fn open(key: &LogLinkKey, text: &str, now_s: u64) -> Option<Self> {
        if text.len() > SEALED_MAX {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = sealing(key)?
            .open_in_place(nonce, Aad::from(DOMAIN), &mut sealed)
            .ok()?;
        let flight: Self = serde_json::from_slice(opened).ok()?;
        (flight.until_s > now_s).then_some(flight)
    }
}

fn sealing(key: &LogLinkKey) -> Option<LessSafeKey> {
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key.0), DOMAIN);
    let key = UnboundKey::new(&AES_256_GCM, derived.as_ref()).ok()?;
    Some(LessSafeKey::new(key))
}

/// 256 random bits, in 43 characters.
fn random() -> Result<String, ApiError> {
    let mut bytes = [0; 32];
    rand::fill(&mut bytes)
        .map_err(|_| ApiError::Answer("the system gives no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
