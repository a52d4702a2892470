//! Short words of strangers that admins will read: never more than so many, never control
//! characters that could play tricks with a terminal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text of at most `MAX` printable ASCII characters; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text<const MAX: usize>(String);

/// A text that cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use printable ASCII characters, at most {0} of them")]
pub struct TextError(pub usize);

impl<const MAX: usize> Text<MAX> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> TryFrom<String> for Text<MAX> {
    type Error = TextError;

    fn try_from(text: String) -> Result<Self, TextError> {
        let printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if text.len() <= MAX && text.bytes().all(printable) {
            Ok(Self(text))
        } else {
            Err(TextError(MAX))
        }
    }
}

impl<const MAX: usize> FromStr for Text<MAX> {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Self::try_from(text.to_owned())
    }
}

impl<const MAX: usize> From<Text<MAX>> for String {
    fn from(text: Text<MAX>) -> Self {
        text.0
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
