//! Tokens: `ID.SECRET.ROOTHASH`, made by an admin, good for joining one cluster.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::key::ClusterId;

/// What a token's key is made for; a key of one purpose is worth nothing for another.
const KEY_DOMAIN: &[u8] = b"muster token key 1\0";
/// Letters of ids and secrets: those of RFC 4648, small, none of which look alike.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Names a token. It is no secret: lists show it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenId(pub [u8; 5]);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base32(&self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenId({self})")
    }
}

impl FromStr for TokenId {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        from_base32(TokenPart::Id, text.trim()).map(Self)
    }
}

/// The secret of a token: 160 random bits. Shown once, when the token is made; never sent.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenSecret(pub [u8; 20]);

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(..)")
    }
}

/// What proofs are made and checked with: follows from the secret, which does not follow from it.
/// Whoever has it can join, so it is kept where the cluster's signing key is kept, and nowhere
/// else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKey(pub [u8; 32]);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

/// A whole token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// Its name.
    pub id: TokenId,
    /// Its secret.
    pub secret: TokenSecret,
    /// The cluster it is for: hash of the root key, the only key that a joiner believes.
    pub cluster: ClusterId,
}

impl JoinToken {
    /// The key that the cluster keeps of it.
    pub fn key(&self) -> TokenKey {
        let mut hash = Sha256::new();
        hash.update(KEY_DOMAIN);
        hash.update(self.cluster.0);
        hash.update(self.id.0);
        hash.update(self.secret.0);
        TokenKey(hash.finalize().into())
    }

    /// The text to hand over. It holds the secret: show it once, log it never.
    pub fn text(&self) -> String {
        format!("{}.{}.{}", self.id, base32(&self.secret.0), self.cluster)
    }
}

/// A part of a token's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPart {
    /// Before the first dot.
    Id,
    /// Between the dots.
    Secret,
    /// After the second dot.
    RootHash,
}

impl fmt::Display for TokenPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "first part (its id)",
            Self::Secret => "second part (its secret)",
            Self::RootHash => "third part (the cluster's root hash)",
        })
    }
}

/// A text that is no token. Says nothing of the secret but where it is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not three parts.
    #[error("a token has 3 parts with dots between them, this text has {0}; copy it as a whole")]
    Parts(usize),
    /// A part is too short or too long.
    #[error("the token's {part} has {found} characters instead of {expected}; copy it as a whole")]
    Length {
        /// Which part.
        part: TokenPart,
        /// Characters it should have.
        expected: usize,
        /// Characters it has.
        found: usize,
    },
    /// A character that no token has.
    #[error("character {at} of the token's {part} is none that a token can have; copy it again")]
    Character {
        /// Which part.
        part: TokenPart,
        /// Which character of it, from 1.
        at: usize,
    },
}

impl FromStr for JoinToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let &[id, secret, root] = parts.as_slice() else {
            return Err(TokenError::Parts(parts.len()));
        };
        Ok(Self {
            id: from_base32(TokenPart::Id, id).map(TokenId)?,
            secret: from_base32(TokenPart::Secret, secret).map(TokenSecret)?,
            cluster: from_hex(root).map(ClusterId)?,
        })
    }
}

fn base32(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 5 * 8);
    for five in bytes.chunks_exact(5) {
        let bits = five
            .iter()
            .fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        let letter = |at: u32| char::from(LETTERS[(bits >> (35 - 5 * at) & 31) as usize]);
        text.extend((0..8).map(letter));
    }
    text
}

/// `N` is a multiple of 5, so that no bits are left over.
fn from_base32<const N: usize>(part: TokenPart, text: &str) -> Result<[u8; N], TokenError> {
    let values = digits(part, text, N / 5 * 8, |byte| {
        let small = byte.to_ascii_lowercase();
        LETTERS.iter().position(|letter| *letter == small)
    })?;
    let mut bytes = [0; N];
    for (five, eight) in bytes.chunks_exact_mut(5).zip(values.chunks_exact(8)) {
        let bits = eight
            .iter()
            .fold(0, |bits, value| bits << 5 | *value as u64);
        five.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Ok(bytes)
}

fn from_hex(text: &str) -> Result<[u8; 16], TokenError> {
    let values = digits(TokenPart::RootHash, text, 32, |byte| {
        char::from(byte).to_digit(16).map(|value| value as usize)
    })?;
    let mut bytes = [0_u8; 16];
    for (byte, two) in bytes.iter_mut().zip(values.chunks_exact(2)) {
        let [high, low] = [two[0], two[1]].map(|value| value.to_le_bytes()[0]);
        *byte = high << 4 | low;
    }
    Ok(bytes)
}

fn digits(
    part: TokenPart,
    text: &str,
    expected: usize,
    value: impl Fn(u8) -> Option<usize>,
) -> Result<Vec<usize>, TokenError> {
    let found = text.chars().count();
    if found != expected {
        return Err(TokenError::Length {
            part,
            expected,
            found,
        });
    }
    let known = |(at, char): (usize, char)| {
        let value = u8::try_from(char).ok().and_then(&value);
        value.ok_or(TokenError::Character { part, at: at + 1 })
    };
    text.chars().enumerate().map(known).collect()
}
