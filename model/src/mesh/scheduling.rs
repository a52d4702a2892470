//! Whether jobs may come to a member, and stay there.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What jobs may do at a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Scheduling {
    /// Come and stay.
    Open,
    /// Stay if they are there; none comes.
    Cordoned,
    /// None comes, and from then on those that are there are stopped, to run elsewhere.
    Draining {
        /// From when on, milliseconds since the epoch.
        from_ms: u64,
    },
}

/// An admin's word on a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchedulingView {
    /// What holds.
    #[serde(flatten)]
    pub scheduling: Scheduling,
    /// Why.
    pub reason: String,
    /// Who said so.
    pub by: String,
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
}

/// A task on a member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MemberTask {
    /// Its job: `user~name`; none: one that the user who asks does not see.
    pub job: Option<String>,
    /// Which of the job's: `role:index`; likewise.
    pub task: Option<String>,
}

impl Scheduling {
    /// The word that users see, the one that JSON has.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Cordoned => "cordoned",
            Self::Draining { .. } => "draining",
        }
    }
}

/// `cordoned by ada: new fans`
impl fmt::Display for SchedulingView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scheduling,
            reason,
            by,
            ..
        } = self;
        f.write_str(scheduling.as_str())?;
        if !by.is_empty() {
            write!(f, " by {by}")?;
        }
        match reason.as_str() {
            "" => Ok(()),
            reason => write!(f, ": {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_all_on_one_level() {
        let word = SchedulingView {
            scheduling: Scheduling::Draining { from_ms: 9 },
            reason: "new fans".to_owned(),
            by: "ada".to_owned(),
            at_ms: 7,
        };
        let json = serde_json::to_string(&word).unwrap();
        let expect = r#"{"mode":"draining","from_ms":9,"reason":"new fans","by":"ada","at_ms":7}"#;
        assert_eq!(json, expect);
        assert_eq!(serde_json::from_str::<SchedulingView>(&json).unwrap(), word);
        assert_eq!(word.to_string(), "draining by ada: new fans");
    }
}
