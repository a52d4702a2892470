//! Names and ids. Each is its own type, so that a job name never passes for a user name.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is no valid name of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {text:?} is not valid: {rule}")]
pub struct InvalidName {
    /// Which kind of name was expected.
    pub kind: &'static str,
    /// The text as given.
    pub text: String,
    /// What such a name looks like.
    pub rule: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $max:literal, $ok:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
        #[schemars(extend("minLength" = 1, "maxLength" = $max))]
        pub struct $type(Box<str>);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                let ok: fn(&str) -> bool = $ok;
                if !text.is_empty() && text.len() <= $max && ok(text) {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidName { kind: $kind, text: text.chars().take(300).collect(), rule: $rule })
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.into()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(NameVisitor::<Self>(PhantomData))
            }
        }
    };
}

/// Reads a name as text is read, without a copy of it in between.
struct NameVisitor<T>(PhantomData<T>);

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for NameVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

fn all(text: &str, extra: &[u8]) -> bool {
    text.bytes()
        .all(|b| b.is_ascii_alphanumeric() || extra.contains(&b))
}

name!(
    /// A user, as OpenPAI names one.
    UserName, "user name", 255, |t| all(t, b"_.-"),
    "use letters, digits, '_', '.' and '-', at most 255 of them"
);
name!(
    /// A group of users. A virtual cluster's name is one too.
    GroupName, "group name", 255, |t| all(t, b"_.-"),
    "use letters, digits, '_', '.' and '-', at most 255 of them"
);
name!(
    /// A job's own name, without its user.
    JobName, "job name", 255, |t| all(t, b"_-"),
    "use letters, digits, '_' and '-', at most 255 of them"
);
name!(
    /// A virtual cluster.
    VcName, "virtual cluster name", 255, |t| all(t, b"_"),
    "use letters, digits and '_', at most 255 of them"
);
name!(
    /// A task role of a job: a C identifier, because variable names are made of it.
    RoleName, "task role name", 255,
    |t| all(t, b"_") && !t.as_bytes()[0].is_ascii_digit(),
    "use letters, digits and '_', not starting with a digit, at most 255 of them"
);
name!(
    /// A machine of the cluster.
    NodeId, "node id", 255, |t| all(t, b"_.-:"),
    "use letters, digits, '_', '.', ':' and '-', at most 255 of them"
);
name!(
    /// One task attempt: names its container, its log directory and its exit.
    /// Made new for every attempt and round, never used again.
    AttemptUid, "attempt uid", 64, |t| all(t, b"-"),
    "use letters, digits and '-', at most 64 of them"
);

impl AttemptUid {
    /// The uid made of 16 bytes, written like a UUID.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let mut text = String::with_capacity(36);
        for (place, byte) in bytes.iter().enumerate() {
            if matches!(place, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            let digits = [byte >> 4, byte & 0xf].map(|digit| char::from_digit(digit.into(), 16));
            text.extend(digits.into_iter().flatten());
        }
        Self(text.into())
    }
}

/// A job of a user, written `user~name` wherever one text is needed.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct JobKey {
    /// Who submitted it.
    pub user: UserName,
    /// Its name among that user's jobs.
    pub name: JobName,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.user, self.name)
    }
}

impl FromStr for JobKey {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let (user, name) = text.split_once('~').ok_or_else(|| InvalidName {
            kind: "job",
            text: text.chars().take(300).collect(),
            rule: "write it as user~name",
        })?;
        Ok(Self {
            user: user.parse()?,
            name: name.parse()?,
        })
    }
}

/// A task of a job: the index counts from 0 within its task role.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct TaskId {
    /// The task role.
    pub role: RoleName,
    /// The task's index in the role.
    pub index: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.role, self.index)
    }
}
