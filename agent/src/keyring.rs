//! The keys that all members of a cluster share.

use muster_control::cluster::{Hidden, Keys};
use muster_portal_gateway::LogLinkKey;
use muster_portal_gateway::token::{self, Issuer, SigningKeys};

use crate::checked_tokens::CheckedTokens;
use crate::seal::Sealer;

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyringError {
    /// The key that signs tokens is none, or none can be made.
    #[error("the key of tokens cannot be used")]
    Token(#[source] token::AuthTokenError),
}

/// Random keys, for a new cluster.
///
/// # Errors
/// [`KeyringError::Token`].
pub(crate) fn random() -> Result<Keys, KeyringError> {
    Ok(Keys {
        data: Hidden(rand::random()),
        link: Hidden(rand::random()),
        token: Hidden(token::new_key().map_err(KeyringError::Token)?),
        token_number: 1,
        retired: Vec::new(),
    })
}

/// Issues users' tokens with these keys.
///
/// # Errors
/// [`token::AuthTokenError::Key`].
pub(crate) fn issuer(keys: &Keys) -> Result<Issuer, token::AuthTokenError> {
    let older = keys.retired.iter();
    let older: Vec<(u32, &[u8])> = older.map(|key| (key.number, &*key.public)).collect();
    Issuer::new(&SigningKeys {
        pkcs8_der: &keys.token.0,
        number: keys.token_number,
        older: &older,
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
            issuer: issuer(&keys).map_err(KeyringError::Token)?,
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
