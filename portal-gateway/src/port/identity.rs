//! The identity provider, over the network.

use async_trait::async_trait;
use serde_json::Value;

use super::PortError;

/// What a provider says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderMetadata {
    /// Where browsers log in.
    pub authorization_endpoint: String,
    /// Where browsers log out, if there is such a place.
    pub end_session_endpoint: Option<String>,
    /// Whether people can log in by a code on another device (RFC 8628).
    pub has_device_flow: bool,
}

/// A device code, and what a person needs to log in for it on another device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGrant {
    /// What the provider knows the login by.
    pub device_code: String,
    /// What the person types there.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    /// The same with the code in it, if the provider has that.
    pub verification_uri_complete: Option<String>,
    /// How long the code is good, in seconds.
    pub life_s: u64,
    /// Seconds from one question to the next, at least.
    pub interval_s: u64,
}

/// What has become of a device code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceOutcome {
    /// The person has not logged in yet.
    Pending,
    /// The same, and questions come too fast: five seconds more have to lie between them from now on.
    SlowDown,
    /// The person has refused it.
    Denied,
    /// It is not good any more.
    Expired,
    /// The ID token for it, unchecked.
    Granted(String),
}

/// What a code is redeemed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeExchange {
    /// The code.
    pub code: String,
    /// Of PKCE.
    pub verifier: String,
    /// Where the provider sent the browser with it.
    pub return_uri: String,
}

/// The identity provider that people log in by. It is asked over a connection on which it has proved that it is
/// itself; whether its tokens are to be believed is for the gateway to find out.
/// [`PortError::Unavailable`] where it does not answer.
#[async_trait]
pub trait IdentityProvider: std::fmt::Debug + Send + Sync {
    /// What it says of itself. Its issuer is the configured one.
    async fn metadata(&self) -> Result<ProviderMetadata, PortError>;
    /// Its public keys, as JWKs: those of the last time, or those of now if `is_fresh`.
    async fn keys(&self, is_fresh: bool) -> Result<Vec<Value>, PortError>;
    /// The ID token for a code, unchecked. [`PortError::Forbidden`] where the provider refuses the code.
    async fn redeem(&self, exchange: &CodeExchange) -> Result<String, PortError>;
    /// A new device code for these scopes; `challenge` is of PKCE. [`PortError::Forbidden`] where the provider refuses
    /// that to this client, [`PortError::Unavailable`] also where it has no device flow.
    async fn begin_device(&self, scope: &str, challenge: &str) -> Result<DeviceGrant, PortError>;
    /// What has become of a device code. [`PortError::Forbidden`] where it was used before or never given.
    async fn poll_device(
        &self,
        device_code: &str,
        verifier: &str,
    ) -> Result<DeviceOutcome, PortError>;
}

/// There is none.
#[derive(Clone, Copy, Debug)]
pub struct NoIdentityProvider;

impl NoIdentityProvider {
    fn missing<T>() -> Result<T, PortError> {
        let text = "no identity provider is configured: see [oidc] in agent.toml";
        Err(PortError::Unavailable(text.to_owned()))
    }
}

#[async_trait]
impl IdentityProvider for NoIdentityProvider {
    async fn metadata(&self) -> Result<ProviderMetadata, PortError> {
        Self::missing()
    }

    async fn keys(&self, _: bool) -> Result<Vec<Value>, PortError> {
        Self::missing()
    }

    async fn redeem(&self, _: &CodeExchange) -> Result<String, PortError> {
        Self::missing()
    }

    async fn begin_device(&self, _: &str, _: &str) -> Result<DeviceGrant, PortError> {
        Self::missing()
    }

    async fn poll_device(&self, _: &str, _: &str) -> Result<DeviceOutcome, PortError> {
        Self::missing()
    }
}
