//! How the program exits.

use std::process::ExitCode;

/// What the exit code says; `muster --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CliStatus {
    /// Done.
    Ok,
    /// Done, and the answer is no.
    Negative,
    /// The command line or a file cannot be used.
    Usage,
    /// No agent answers.
    Unreachable,
    /// The agent refused.
    Refused,
    /// The time the user gave has passed, as `timeout(1)` says it.
    TimedOut,
    /// The exit code of the task that was run, or 128 + the signal that ended the run.
    Task(u8),
}

impl CliStatus {
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Negative => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
            Self::TimedOut => 124,
            Self::Task(code) => code,
        }
    }

    /// [`CliStatus::Ok`] for a yes, [`CliStatus::Negative`] for a no.
    pub(super) const fn of(yes: bool) -> Self {
        if yes { Self::Ok } else { Self::Negative }
    }
}

impl From<CliStatus> for ExitCode {
    fn from(status: CliStatus) -> Self {
        Self::from(status.code())
    }
}
