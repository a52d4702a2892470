//! The keys of one source: this node's own files, or the cluster it is in.

use muster_control::cluster::{Hidden, Keys};
use muster_portal_gateway::LogLinkKey;
use muster_portal_gateway::token::{self, Issuer};

use crate::checked_tokens::CheckedTokens;
use crate::key_file;
use crate::paths::Paths;
use crate::seal::Sealer;

/// Keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file cannot be read or written.
    #[error("cannot use the key in {path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file holds something else than a key.
    #[error("{path} holds no key: it has {bytes} bytes, not {expected}; remove it for a new one")]
    Length {
        /// The file.
        path: String,
        /// What it has.
        bytes: usize,
        /// What it should have.
        expected: usize,
    },
    /// No key can be made.
    #[error("a key cannot be made: {0}")]
    Make(#[from] aws_lc_rs::error::Unspecified),
    /// The key that signs tokens is none.
    #[error("the key of tokens cannot be used")]
    Token(#[source] token::Error),
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
    /// [`Error::Token`].
    pub(crate) fn new(keys: Keys) -> Result<Self, Error> {
        Ok(Self {
            issuer: Issuer::new(&keys.token.0).map_err(Error::Token)?,
            checked: CheckedTokens::default(),
            sealer: Sealer::new(&keys.data.0),
            keys,
        })
    }

    /// This node's own keys, made at first start.
    ///
    /// # Errors
    /// When a file cannot be read or written, or holds no key.
    pub(crate) fn own(paths: &Paths) -> Result<Self, Error> {
        Self::new(Keys {
            data: Hidden(random(&paths.secrets_key())?),
            link: Hidden(random(&paths.log_link_key())?),
            token: Hidden(token_key(&paths.token_key())?),
        })
    }

    /// Signs links to logs.
    pub(crate) const fn link(&self) -> LogLinkKey {
        LogLinkKey(self.keys.link.0)
    }
}

fn random(path: &std::path::Path) -> Result<[u8; 32], Error> {
    let make = || rand::random::<[u8; 32]>().to_vec();
    let key = key_file::read_or_make(path, make).map_err(|source| file(path, source))?;
    let bytes = key.len();
    key.try_into().map_err(|_| Error::Length {
        path: path.display().to_string(),
        bytes,
        expected: 32,
    })
}

fn token_key(path: &std::path::Path) -> Result<Vec<u8>, Error> {
    let random = aws_lc_rs::rand::SystemRandom::new();
    let fresh = aws_lc_rs::signature::Ed25519KeyPair::generate_pkcs8(&random)?;
    let make = || fresh.as_ref().to_vec();
    key_file::read_or_make(path, make).map_err(|source| file(path, source))
}

fn file(path: &std::path::Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.display().to_string(),
        source,
    }
}
