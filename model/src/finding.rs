//! What a check of a machine found: what was looked at, what was seen, what to do about it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one check found out about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The check: `fsync`, `mtu`.
    pub check: String,
    /// What it looked at: a directory, a port, another member.
    pub subject: String,
    /// How bad it is.
    pub grade: Grade,
    /// What was seen, in figures where there are any.
    pub evidence: String,
    /// What to do. Empty where nothing has to be done.
    pub remedy: String,
}

/// How bad a finding is. The worse is the greater.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As it should be.
    Ok,
    /// It works, but badly, or not for long.
    Warn,
    /// It does not work.
    Fail,
}

impl Grade {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Finding {
    /// All is well with `subject`.
    pub fn ok(check: &str, subject: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            subject: subject.into(),
            grade: Grade::Ok,
            evidence: evidence.into(),
            remedy: String::new(),
        }
    }

    /// The same finding, graded otherwise, with what to do about it.
    #[must_use]
    pub fn but(self, grade: Grade, remedy: impl Into<String>) -> Self {
        Self {
            grade,
            remedy: remedy.into(),
            ..self
        }
    }

    /// Whether something has to be done.
    pub fn is_trouble(&self) -> bool {
        self.grade > Grade::Ok
    }
}
