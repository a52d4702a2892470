//! The keys that all members of a cluster share.

use muster_control::cluster::{Hidden, Keys};
use muster_portal_gateway::LogLinkKey;
use muster_portal_gateway::token::{self, Issuer};

use crate::checked_tokens::CheckedTokens;
use crate::seal::Sealer;

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyringError {
    /// No key can be made.
    #[error("a key cannot be made: {0}")]
    Make(#[from] aws_lc_rs::error::Unspecified),
    /// The key that signs tokens is none.
    #[error("the key of tokens cannot be used")]
    Token(#[source] token::AuthTokenError),
}

/// Random keys, for a new cluster.
///
/// # Errors
/// [`KeyringError::Make`].
pub(crate) fn random() -> Result<Keys, KeyringError> {
    let source = aws_lc_rs::rand::SystemRandom::new();
    let token = aws_lc_rs::signature::Ed25519KeyPair::generate_pkcs8(&source)?;
    Ok(Keys {
        data: Hidden(rand::random()),
        link: Hidden(rand::random()),
        token: Hidden(token.as_ref().to_vec()),
    })
}

/// Keys, ready for use, and what was checked with them.
#[derive(Debug)]
pub(crate) struct Keyring {
    /// As they are kept.
    pub(crate) keys: Keys,
    /// Issues users' tokens.
    pub(crate) issuer: Issuer,
    /// Tokens whose signature was found right.
    pub(crate) checked: CheckedTokens,
    /// Seals jobs' secrets.
    pub(crate) sealer: Sealer,
}

impl Keyring {
    /// These keys.
    ///
    /// # Errors
    /// [`KeyringError::Token`].
    pub(crate) fn new(keys: Keys) -> Result<Self, KeyringError> {
        Ok(Self {
            issuer: Issuer::new(&keys.token.0).map_err(KeyringError::Token)?,
            checked: CheckedTokens::default(),
            sealer: Sealer::new(&keys.data.0),
            keys,
        })
    }

    /// Signs links to logs.
    pub(crate) const fn link(&self) -> LogLinkKey {
        LogLinkKey(self.keys.link.0)
    }
}
