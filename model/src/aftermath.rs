//! What follows from an end: who can do something about it, and what the platform has done.

use std::fmt;

use crate::exit::{Behavior, ExitSpec, Verdict};
use crate::rule_test::JudgedAs;
use crate::state::JobState;
use crate::view::JobDetail;

/// Who can do something about an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The owner of the job.
    Owner,
    /// The administrators of the cluster.
    Admin,
    /// The platform, which tries again by itself; or nothing has to be done.
    Platform,
}

impl Actor {
    /// Whom the row of an end names by its type and its behavior. Of a failure whose retries are charged to the owner
    /// it is the owner, and of an unknown one, whose log the owner can read.
    pub fn of(spec: &ExitSpec) -> Self {
        match (spec.kind.as_deref(), spec.behavior) {
            (Some("USER_SUCCESS" | "USER_STOP"), _) => Self::Platform,
            (Some("PLATFORM_FAILURE" | "RESOURCE_ALLOCATION_TIMEOUT"), behavior) => {
                match behavior {
                    Behavior::Transient | Behavior::TransientConflict => Self::Platform,
                    Behavior::Permanent => Self::Admin,
                    Behavior::Unknown => Self::Owner,
                }
            }
            _ => Self::Owner,
        }
    }

    /// The word for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin",
            Self::Platform => "platform",
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owner => "the owner of the job",
            Self::Admin => "the administrators of the cluster",
            Self::Platform => "nobody has to: the platform tries such a task again by itself",
        })
    }
}

/// Which rule led to a verdict, as a sentence; none if no node judged.
pub fn judged_by(verdict: &Verdict) -> Option<String> {
    let judged = verdict.judged.as_ref()?;
    let rules = match judged.rules_version {
        0 => "the shipped failure rules".to_owned(),
        version => format!("version {version} of the failure rules"),
    };
    let code = verdict.code();
    let mut text = match judged.pattern {
        Some(pattern) => format!("Pattern {pattern} of rule {code} held, in {rules}."),
        None => format!("It follows from the exit itself, by rule {code} of {rules}."),
    };
    if let Some(JudgedAs { code, phrase, .. }) = &judged.shadow {
        text.push_str(&format!(
            " With the rules in shadow it would be {code} {phrase}."
        ));
    }
    Some(text)
}

/// What the platform did after the end of a job that failed, as a sentence; none while the job goes on.
pub fn what_was_done(detail: &JobDetail) -> Option<String> {
    let summary = &detail.summary;
    let verdict = detail.attempt.as_ref()?.verdict.as_ref()?;
    let is_last = detail.attempt.as_ref()?.id == summary.retries.total;
    if summary.state() != JobState::Failed || !is_last {
        return None;
    }
    let retries = summary.retries;
    let why = match (verdict.spec.behavior, retries.accountable) {
        (Behavior::Permanent, _) => "a failure of this kind comes back each time".to_owned(),
        (Behavior::Unknown, 0) => "the job allows no retries (`jobRetryCount`)".to_owned(),
        (Behavior::Unknown, used) => format!(
            "{used} of its {} count against the job's limit (`jobRetryCount`), which is used up",
            counted(retries.total)
        ),
        (Behavior::Transient | Behavior::TransientConflict, _) => {
            "the retries that are not counted are used up, and so is the job's limit (`jobRetryCount`)".to_owned()
        }
    };
    Some(format!("It was not tried again: {why}."))
}

fn counted(retries: u32) -> String {
    match retries {
        1 => "1 retry".to_owned(),
        many => format!("{many} retries"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_who_can_do_something() {
        let actor = |kind: Option<&str>, behavior| {
            Actor::of(&ExitSpec {
                kind: kind.map(str::to_owned),
                behavior,
                ..ExitSpec::default()
            })
        };
        use Behavior::{Permanent, Transient, TransientConflict, Unknown};
        for (kind, behavior, expected) in [
            (Some("USER_FAILURE"), Permanent, Actor::Owner),
            (Some("USER_FAILURE"), Transient, Actor::Owner),
            (Some("UNKNOWN_FAILURE"), Unknown, Actor::Owner),
            (None, Unknown, Actor::Owner),
            (Some("PLATFORM_FAILURE"), Transient, Actor::Platform),
            (Some("PLATFORM_FAILURE"), Permanent, Actor::Admin),
            (Some("PLATFORM_FAILURE"), Unknown, Actor::Owner),
            (
                Some("RESOURCE_ALLOCATION_TIMEOUT"),
                TransientConflict,
                Actor::Platform,
            ),
            (Some("USER_STOP"), Permanent, Actor::Platform),
        ] {
            assert_eq!(actor(kind, behavior), expected, "{kind:?} {behavior:?}");
        }
    }
}
