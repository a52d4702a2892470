//! The entries of a log as bytes: the version of their layout, then what postcard makes of them.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// An entry that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Written by a newer release, or empty.
    #[error("entry version {0:?} is not known")]
    Version(Option<u8>),
    /// The bytes are no entry.
    #[error("the entry cannot be read")]
    Body(#[source] postcard::Error),
}

/// An entry that cannot be encoded; does not happen for entries made by this crate.
#[derive(Debug, thiserror::Error)]
#[error("the entry cannot be written")]
pub struct EncodeError(#[source] postcard::Error);

/// An entry of this version as bytes.
///
/// # Errors
/// When the encoder fails, which means a bug.
pub(crate) fn encode<E: Serialize>(version: u8, entry: &E) -> Result<Vec<u8>, EncodeError> {
    postcard::to_extend(entry, vec![version]).map_err(EncodeError)
}

/// Reads an entry of this version.
///
/// # Errors
/// When the bytes are not an entry of this version.
pub(crate) fn decode<E: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<E, DecodeError> {
    match bytes.split_first() {
        Some((known, body)) if *known == version => {
            postcard::from_bytes(body).map_err(DecodeError::Body)
        }
        _ => Err(DecodeError::Version(bytes.first().copied())),
    }
}
