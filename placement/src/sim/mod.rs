//! What would have become of a trace: its jobs come as they came, and are placed by the same
//! [`plan`](crate::plan::plan) as everything else.
//!
//! All jobs belong to one virtual cluster that owns all machines; those of one user share it
//! with the others as [`Turns`] says. How long a job runs is only known
//! here: no policy hears of it before the job ends.

mod cluster;
mod figures;
mod replay;
#[cfg(test)]
mod tests;
mod trace;

use crate::decide::{DecisionPolicy, Turns};

pub use figures::ReplayFigures;
pub use replay::replay;
pub use trace::{TraceJob, read};

/// Devices of a machine.
pub const GPUS_PER_NODE: u32 = 8;
/// Most machines.
pub const NODES_MAX: u32 = 1 << 16;

/// Why there is nothing to replay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// No machines, or too many.
    #[error("nodes is {0}; use 1 to {NODES_MAX}")]
    Nodes(u32),
    /// A column that is needed is not there.
    #[error(
        "the heading has no column {0}; the first line must name job_id,submit_s,duration_s,gpus,..."
    )]
    Column(&'static str),
    /// A value is not a number that is possible there.
    #[error("line {line}: {column} is {value:?}; use {use_instead}")]
    Value {
        /// Counted from 1, the heading.
        line: u64,
        /// Which value.
        column: &'static str,
        /// What it is.
        value: String,
        /// What it could be.
        use_instead: &'static str,
    },
    /// Not comma-separated text.
    #[error("the text cannot be read as comma-separated values: {0}")]
    Text(String),
    /// No jobs.
    #[error("the trace has no job that asks for GPUs")]
    Empty,
    /// The cells refused what was planned: a bug.
    #[error("the cells refuse a plan: {0}")]
    Refused(String),
}

/// The policies that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayPolicy {
    /// Strictly first come, first served.
    Fifo,
    /// First come, first served, but who does not fit is passed.
    Backfill,
    /// The default [`Turns`]: smaller first, fair, room kept for overdue gangs.
    Default,
}

impl ReplayPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fifo, Self::Backfill, Self::Default];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Backfill => "backfill",
            Self::Default => "default",
        }
    }

    /// What it decides by.
    pub fn policy(self) -> DecisionPolicy {
        let turns = match self {
            Self::Fifo => Turns::strict(),
            Self::Backfill => Turns::backfill(),
            Self::Default => Turns::default(),
        };
        DecisionPolicy {
            turns,
            ..DecisionPolicy::default()
        }
    }
}
