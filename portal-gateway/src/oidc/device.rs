//! A login by the device flow of RFC 8628 under way. The client carries it as a handle that it cannot read, sealed
//! with a key that all members share: so any member can be asked whether the person has logged in, and none
//! keeps anything of it. The provider's device code, which is worth a token, never leaves the members in clear.

use serde::{Deserialize, Serialize};

use super::flight::challenge;
use super::sealed::{SealKind, random};
use crate::config::LogLinkKey;
use crate::error::ApiError;
use crate::port::DeviceGrant;

/// Some providers' device codes are tokens of some 2,000 bytes.
const KIND: SealKind = SealKind {
    domain: "muster oidc device\0",
    bytes_max: 16 << 10,
};
/// A provider may give a device code for longer; here it ends then, in seconds.
const LIFE_MAX_S: u64 = 3_600;

/// What is known before the provider is asked for a device code.
#[derive(Debug)]
pub(crate) struct DeviceStart {
    verifier: String,
}

/// What has to be known when the client asks whether the person has logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DeviceFlight {
    /// Names this login, among those that have ended.
    pub(crate) id: String,
    /// What the provider knows it by.
    pub(crate) device_code: String,
    /// The code verifier of PKCE. RFC 8628 does not ask for it, but a provider may of this client.
    pub(crate) verifier: String,
    /// What the token will be called.
    pub(crate) token_name: String,
    /// Good until then, seconds since the epoch.
    pub(crate) until_s: u64,
}

impl DeviceStart {
    /// A new one.
    pub(crate) fn new() -> Result<Self, ApiError> {
        Ok(Self {
            verifier: random()?,
        })
    }

    /// What the provider is shown of the verifier.
    pub(crate) fn challenge(&self) -> String {
        challenge(&self.verifier)
    }

    /// The login that begins with what the provider granted.
    pub(crate) fn granted(
        self,
        grant: &DeviceGrant,
        token_name: String,
        now_s: u64,
    ) -> Result<DeviceFlight, ApiError> {
        Ok(DeviceFlight {
            id: random()?,
            device_code: grant.device_code.clone(),
            verifier: self.verifier,
            token_name,
            until_s: now_s.saturating_add(grant.life_s.min(LIFE_MAX_S)),
        })
    }
}

impl DeviceFlight {
    /// The handle, for the client to keep.
    pub(crate) fn seal(&self, key: &LogLinkKey) -> Result<String, ApiError> {
        let too_long = "the identity provider's device code is too long";
        let sealed = KIND.seal(key, self)?;
        sealed.ok_or_else(|| ApiError::Answer(too_long.to_owned()))
    }

    /// What a client kept; none if no member has sealed it. It may be over.
    pub(crate) fn open(key: &LogLinkKey, handle: &str) -> Option<Self> {
        KIND.open(key, handle)
    }
}
