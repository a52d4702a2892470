//! Jobs as squeue, sacct and scancel choose them.

use std::fmt;

use muster_model::id::{UserName, VcName};
use muster_model::state::{JobState, SubState};
use muster_model::view::JobSummary;

use super::number::{JobSelector, SlurmNumber};
use super::option::OptionLine;
use crate::api::{Api, Filter, ListedJob};
use crate::console::Console;
use crate::error::CliError;
use crate::incomplete;

/// A state as Slurm names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlurmState {
    Pending,
    Configuring,
    Running,
    Completing,
    Completed,
    Cancelled,
    Failed,
}

impl SlurmState {
    const ALL: [Self; 7] = [
        Self::Pending,
        Self::Configuring,
        Self::Running,
        Self::Completing,
        Self::Completed,
        Self::Cancelled,
        Self::Failed,
    ];
    /// What squeue shows unless it is told otherwise.
    pub(super) const ACTIVE: [Self; 4] = [
        Self::Pending,
        Self::Configuring,
        Self::Running,
        Self::Completing,
    ];

    pub(super) fn of(job: &JobSummary) -> Self {
        match job.state() {
            JobState::Waiting if job.sub_state == SubState::AttemptPreparing => Self::Configuring,
            JobState::Waiting => Self::Pending,
            JobState::Running => Self::Running,
            JobState::Stopping => Self::Completing,
            JobState::Succeeded => Self::Completed,
            JobState::Stopped => Self::Cancelled,
            JobState::Failed => Self::Failed,
        }
    }

    pub(super) const fn letters(self) -> &'static str {
        match self {
            Self::Pending => "PD",
            Self::Configuring => "CF",
            Self::Running => "R",
            Self::Completing => "CG",
            Self::Completed => "CD",
            Self::Cancelled => "CA",
            Self::Failed => "F",
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Configuring => "CONFIGURING",
            Self::Running => "RUNNING",
            Self::Completing => "COMPLETING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed => "FAILED",
        }
    }

    /// The states that the words of an option mean.
    pub(super) fn read_all(line: &OptionLine, option: &str) -> Result<Vec<Self>, CliError> {
        let mut states = Vec::new();
        for word in &line.list(option) {
            if word.eq_ignore_ascii_case("all") {
                return Ok(Self::ALL.to_vec());
            }
            let is_meant = |state: &Self| {
                word.eq_ignore_ascii_case(state.letters())
                    || word.eq_ignore_ascii_case(state.word())
            };
            let state = Self::ALL.into_iter().find(is_meant);
            states.push(state.ok_or_else(|| {
                let all = Self::ALL.map(Self::letters).join(", ");
                let why =
                    format!("--{option}: no job is ever {word} here; there are {all} and all");
                CliError::Usage(why)
            })?);
        }
        Ok(states)
    }
}

impl fmt::Display for SlurmState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Which jobs are meant. Empty lists mean any.
#[derive(Clone, Debug, Default)]
pub(super) struct JobChoice {
    pub(super) users: Vec<UserName>,
    pub(super) partitions: Vec<VcName>,
    pub(super) states: Vec<SlurmState>,
    pub(super) names: Vec<String>,
    pub(super) jobs: Vec<JobSelector>,
}

impl JobChoice {
    /// By `--user`, `--partition`, `--states` and `--name`.
    pub(super) fn read(line: &OptionLine) -> Result<Self, CliError> {
        let users = names::<UserName>(line, "user")?;
        let partitions = names::<VcName>(line, "partition")?;
        let states = SlurmState::read_all(line, "states")?;
        Ok(Self {
            users,
            partitions,
            states,
            names: line.list("name"),
            jobs: Vec::new(),
        })
    }

    pub(super) fn takes(&self, job: &JobSummary) -> bool {
        let (stem, _) = SlurmNumber::split(&job.key.name);
        let is_named = |name: &String| name == stem || name == job.key.name.as_str();
        (self.users.is_empty() || self.users.contains(&job.key.user))
            && (self.partitions.is_empty() || self.partitions.contains(&job.vc))
            && (self.states.is_empty() || self.states.contains(&SlurmState::of(job)))
            && (self.names.is_empty() || self.names.iter().any(is_named))
            && (self.jobs.is_empty() || self.jobs.iter().any(|it| it.takes(&job.key)))
    }

    /// The states of Muster that this needs, so that not more is asked for.
    fn job_states(&self) -> Vec<JobState> {
        let all = [
            (SlurmState::Pending, JobState::Waiting),
            (SlurmState::Configuring, JobState::Waiting),
            (SlurmState::Running, JobState::Running),
            (SlurmState::Completing, JobState::Stopping),
            (SlurmState::Completed, JobState::Succeeded),
            (SlurmState::Cancelled, JobState::Stopped),
            (SlurmState::Failed, JobState::Failed),
        ];
        let wanted = all.into_iter().filter(|(it, _)| self.states.contains(it));
        let mut states: Vec<JobState> = wanted.map(|(_, state)| state).collect();
        states.dedup();
        states
    }

    /// The jobs, those that were submitted first before others.
    pub(super) async fn find(
        &self,
        api: &Api,
        console: &Console,
    ) -> Result<Vec<ListedJob>, CliError> {
        let states = self.job_states();
        let filter = Filter {
            users: &self.users,
            states: &states,
            vcs: &self.partitions,
        };
        let listing = api.jobs(filter).await?;
        incomplete::tell(&listing, console);
        let mut jobs: Vec<ListedJob> = listing
            .jobs
            .into_iter()
            .filter(|job| self.takes(&job.summary))
            .collect();
        jobs.sort_by(|a, b| {
            let first = a.summary.submitted.cmp(&b.summary.submitted);
            first.then_with(|| a.summary.key.cmp(&b.summary.key))
        });
        Ok(jobs)
    }
}

/// The names that an option lists.
pub(super) fn names<T: std::str::FromStr<Err: fmt::Display>>(
    line: &OptionLine,
    option: &str,
) -> Result<Vec<T>, CliError> {
    let names = line.list(option).into_iter();
    let names = names.map(|name| {
        let name = name.parse();
        name.map_err(|why| CliError::Usage(format!("--{option}: {why}")))
    });
    names.collect()
}
