//! The name of a blob by its content.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const PREFIX: &str = "sha256:";
const HEX_CHARS: usize = 64;

/// `sha256:` and 64 lower-case hex digits, checked. No other algorithm is in use with
/// containerd's content store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Reads one, `None` if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX)?;
        let ok = hex.len() == HEX_CHARS
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        ok.then(|| Self(text.to_owned()))
    }

    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::finish(Sha256::new_with_prefix(bytes))
    }

    /// The digest of all that the hasher was fed.
    pub(super) fn finish(hasher: Sha256) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + HEX_CHARS);
        text.push_str(PREFIX);
        for byte in hasher.finalize() {
            let _ = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
        }
        Self(text)
    }

    /// From the bare hex digits, as archives name files.
    pub(super) fn from_hex(hex: &str) -> Option<Self> {
        Self::parse(&format!("{PREFIX}{hex}"))
    }

    /// With its prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` is not a sha256 digest"))
    }
}
