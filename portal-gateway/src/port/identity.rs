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
}
