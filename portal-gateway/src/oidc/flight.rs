//! A login under way. The browser carries it, sealed with a key that all members share, so that any of
//! them can end it; and only the browser that began it can.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::sealed::{SealKind, random};
use crate::config::LogLinkKey;
use crate::error::ApiError;

/// Browsers keep 4,096 bytes of a cookie.
const KIND: SealKind = SealKind {
    domain: "muster oidc login\0",
    bytes_max: 3_800,
};
/// How long a person may take at the provider, in seconds.
pub(crate) const LIFE_S: u64 = 600;

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
        challenge(&self.verifier)
    }

    /// For the browser to keep.
    pub(crate) fn seal(&self, key: &LogLinkKey) -> Result<String, ApiError> {
        let sealed = KIND.seal(key, self)?;
        sealed.ok_or_else(|| ApiError::Parameters("redirect_uri and from are too long".to_owned()))
    }

    /// What a browser kept; none if no member has sealed it, or its time is over.
    pub(crate) fn open(key: &LogLinkKey, text: &str, now_s: u64) -> Option<Self> {
        let flight: Self = KIND.open(key, text)?;
        (flight.until_s > now_s).then_some(flight)
    }
}

/// What a provider is shown of a code verifier: its digest, as `S256` of RFC 7636 says.
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}
