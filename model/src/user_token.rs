//! Tokens of users: what kinds there are, and what is shown of them. The text of a token is never part of that.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::UserName;
use crate::secret::Hidden;

/// How long a login works, in seconds: seven days.
pub const LOGIN_LIFE_S: u64 = 7 * 24 * 3_600;
/// An application token works so many seconds, at least, where it does not work for ever.
pub const APPLICATION_LIFE_MIN_S: u64 = 60;
/// And at most: ten years.
pub const APPLICATION_LIFE_MAX_S: u64 = 3_650 * 24 * 3_600;
/// Characters of a token's name, at most.
pub const TOKEN_NAME_CHARS_MAX: usize = 64;
/// The last use of a token is known to this many seconds: an hour.
pub const LAST_USE_STEP_S: u64 = 3_600;

/// Digits of an id.
const ID_DIGITS: usize = 16;

/// Which kind of token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// A person logged in: it works for [`LOGIN_LIFE_S`].
    Login,
    /// For a program: it works as long as its maker said, and may not manage tokens.
    Application,
}

impl TokenKind {
    /// As users write and read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Application => "application",
        }
    }
}

/// Names a token of a user. It does not help to guess the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
pub struct UserTokenId(#[schemars(with = "String")] pub u64);

/// The text is no id of a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id of a token has {ID_DIGITS} hexadecimal digits, as `muster token list` shows it")]
pub struct InvalidUserTokenId;

impl From<ParseIntError> for InvalidUserTokenId {
    fn from(_: ParseIntError) -> Self {
        Self
    }
}

impl fmt::Display for UserTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0ID_DIGITS$x}", self.0)
    }
}

impl FromStr for UserTokenId {
    type Err = InvalidUserTokenId;

    fn from_str(text: &str) -> Result<Self, InvalidUserTokenId> {
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if text.len() != ID_DIGITS || !is_hex {
            return Err(InvalidUserTokenId);
        }
        Ok(Self(u64::from_str_radix(text, 16)?))
    }
}

/// Text where people read it, a number elsewhere.
impl Serialize for UserTokenId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.collect_str(self),
            false => serializer.serialize_u64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for UserTokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return u64::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// What a token that is to be issued is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewUserToken {
    /// What its user calls it, may be empty.
    pub name: String,
    /// How long it works, in seconds; none: for ever. A login works for [`LOGIN_LIFE_S`] in any case.
    pub life_s: Option<u64>,
}

impl NewUserToken {
    /// A token of this name that works as long as it may.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            life_s: None,
        }
    }
}

/// What is wrong with the name of a token, and what to write; none if nothing is.
pub fn token_name_problem(name: &str) -> Option<String> {
    if name.chars().count() > TOKEN_NAME_CHARS_MAX {
        return Some(format!(
            "has at most {TOKEN_NAME_CHARS_MAX} characters; choose a shorter one"
        ));
    }
    let is_bad = name.chars().any(char::is_control) || name.trim() != name;
    is_bad.then(|| "is one line of text without spaces at its ends".to_owned())
}

/// A token as users see it in lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserTokenView {
    /// Names it.
    pub id: UserTokenId,
    /// What its user calls it, may be empty.
    pub name: String,
    /// For a person or a program.
    pub kind: TokenKind,
    /// When it was issued, ms since the epoch.
    pub issued_ms: u64,
    /// When it expires, ms since the epoch; none: never.
    pub expires_ms: Option<u64>,
    /// When it was used last, ms since the epoch, rounded down to an hour; none: never, as far as is known.
    pub last_used_ms: Option<u64>,
    /// The address that it was asked for from; `socket` for root on a node's own socket.
    pub address: String,
}

/// A token as it is issued. Its text is known to nobody but its holder after that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedUserToken {
    /// The text.
    pub text: Hidden<String>,
    /// What is shown of it.
    pub view: UserTokenView,
}

/// Which tokens are to be revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TokenSelection {
    /// This one of a user's.
    Text(UserName, Hidden<String>),
    /// This one of a user's.
    Id(UserName, UserTokenId),
    /// All of a user's.
    OfUser(UserName),
    /// All of all users.
    All,
}

impl TokenSelection {
    /// Whose; none: everybody's.
    pub const fn user(&self) -> Option<&UserName> {
        match self {
            Self::Text(user, _) | Self::Id(user, _) | Self::OfUser(user) => Some(user),
            Self::All => None,
        }
    }
}

/// A token was used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    /// Whose.
    pub user: UserName,
    /// Which.
    pub id: UserTokenId,
    /// When, in seconds since the epoch, rounded down to [`LAST_USE_STEP_S`].
    pub at_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_sixteen_digits() {
        let id = UserTokenId(0x2a);
        assert_eq!(id.to_string(), "000000000000002a");
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"000000000000002a\"");
        for (text, expect) in [
            ("000000000000002a", Ok(id)),
            ("000000000000002A", Ok(id)),
            ("2a", Err(InvalidUserTokenId)),
            ("+00000000000002a", Err(InvalidUserTokenId)),
            ("00000000000000zz", Err(InvalidUserTokenId)),
            ("", Err(InvalidUserTokenId)),
        ] {
            assert_eq!(text.parse(), expect, "{text}");
        }
    }

    #[test]
    fn names_are_a_line_of_a_few_words() {
        for (name, is_good) in [
            ("", true),
            ("build server", true),
            ("двенадцать", true),
            (" x", false),
            ("a\nb", false),
        ] {
            assert_eq!(token_name_problem(name).is_none(), is_good, "{name:?}");
        }
        assert_eq!(token_name_problem(&"ä".repeat(TOKEN_NAME_CHARS_MAX)), None);
        let long = token_name_problem(&"a".repeat(TOKEN_NAME_CHARS_MAX + 1));
        assert!(long.is_some_and(|why| why.contains("64")));
    }
}
