//! The states of a job, an attempt and a task, with OpenPAI's names.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Exit code of everything a user's stop ended.
pub const EXIT_STOPPED: i32 = -210;
/// Exit code of a task that ended because its attempt was decided by others.
pub const EXIT_ATTEMPT_COMPLETED: i32 = -220;

/// FrameworkController's state, which OpenPAI shows as `subState`.
/// The same set serves jobs, attempts and tasks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum SubState {
    /// Accepted, waits for its turn, its resources or the end of a back-off.
    AttemptCreationPending,
    /// Resources are being reserved.
    AttemptCreationRequested,
    /// Placed; images, containers and the gang's barrier are under way.
    AttemptPreparing,
    /// User commands run.
    AttemptRunning,
    /// Decided to end; nothing sent yet.
    AttemptDeletionPending,
    /// Nodes were told to stop it.
    AttemptDeletionRequested,
    /// Nodes are stopping it.
    AttemptDeleting,
    /// Ended; a retry is due or not yet decided.
    AttemptCompleted,
    /// Ended for good.
    Completed,
}

impl fmt::Display for SubState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The state users see.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Not started yet.
    Waiting,
    /// Running, or between two attempts.
    Running,
    /// Being stopped.
    Stopping,
    /// Ended with code 0.
    Succeeded,
    /// Ended by a stop.
    Stopped,
    /// Ended otherwise.
    Failed,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl JobState {
    /// As users see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Running => "RUNNING",
            Self::Stopping => "STOPPING",
            Self::Succeeded => "SUCCEEDED",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
        }
    }

    /// A job's or task's state from its sub-state and the exit code decided so far
    /// (reference: frameworkConverter.convertState).
    pub fn of(sub: SubState, code: Option<i32>) -> Self {
        use SubState::*;
        match sub {
            AttemptCreationPending | AttemptCreationRequested | AttemptPreparing => Self::Waiting,
            AttemptRunning => Self::Running,
            AttemptDeletionPending
            | AttemptDeletionRequested
            | AttemptDeleting
            | AttemptCompleted => match code {
                Some(EXIT_STOPPED | EXIT_ATTEMPT_COMPLETED) => Self::Stopping,
                _ => Self::Running,
            },
            Completed => Self::ended(code),
        }
    }

    /// An attempt's state: like [`JobState::of`], but `AttemptCompleted` is final too.
    pub fn of_attempt(sub: SubState, code: Option<i32>) -> Self {
        match sub {
            SubState::AttemptCompleted => Self::ended(code),
            _ => Self::of(sub, code),
        }
    }

    /// Whether nothing will change any more.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Stopped | Self::Failed)
    }

    const fn ended(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Succeeded,
            Some(EXIT_STOPPED | EXIT_ATTEMPT_COMPLETED) => Self::Stopped,
            _ => Self::Failed,
        }
    }
}

/// What the user wants of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ExecutionType {
    /// Run it.
    Start,
    /// End it. There is no way back.
    Stop,
}

/// HiveD's job priority classes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum PriorityClass {
    /// Opportunistic, priority -1: uses what no VC claims.
    Oppo,
    /// Priority 10, the default.
    Test,
    /// Priority 100.
    Prod,
    /// Priority 120.
    Crit,
}

impl PriorityClass {
    /// The number that placement compares.
    pub const fn priority(self) -> i32 {
        match self {
            Self::Oppo => -1,
            Self::Test => 10,
            Self::Prod => 100,
            Self::Crit => 120,
        }
    }

    /// The name in `extras.hivedScheduler.jobPriorityClass`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oppo => "oppo",
            Self::Test => "test",
            Self::Prod => "prod",
            Self::Crit => "crit",
        }
    }
}
