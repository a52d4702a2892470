//! Jobs, with their attempts and tasks.

use std::time::Duration;

use async_trait::async_trait;
use muster_model::explanation::Explanation;
use muster_model::id::{JobKey, TaskId, VcName};
use muster_model::job_query::JobQuery;
use muster_model::remark::Remark;
use muster_model::state::ExecutionType;
use muster_model::view::{Age, Dated, JobDetail, JobEvent, JobSummary, TaskView};

use super::{Caller, PortError};

/// A job that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedSubmission {
    /// Its name.
    pub key: JobKey,
    /// What of it is not carried out, or not as it reads.
    pub warnings: Vec<Remark>,
}

/// Jobs of a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundJobs {
    /// Those that were asked for. Each virtual cluster gives its first.
    pub jobs: Vec<JobSummary>,
    /// How many the filter takes.
    pub total: usize,
    /// Virtual clusters whose leaders do not answer, and no copy of their logs either: their jobs are
    /// missing.
    pub away: Vec<VcName>,
    /// Those whose jobs are told by a copy, and how old that is.
    pub aged: Vec<Age>,
}

/// What of a job is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// That it has ended.
    End,
    /// That, or that it has got on since its mark was this one ([`JobSummary::mark`]).
    Change(String),
}

impl Awaited {
    /// Whether waiting is over.
    pub fn is_reached(&self, job: &JobSummary) -> bool {
        job.state().is_final() || matches!(self, Self::Change(seen) if *seen != job.mark())
    }
}

/// Jobs. [`PortError::NoJob`] where there is none of that name.
#[async_trait]
pub trait Jobs: std::fmt::Debug + Send + Sync {
    /// Accepts a job. When this returns, the job is on disk and every read shows it.
    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<AcceptedSubmission, PortError>;
    /// Lists jobs, in no particular order.
    async fn list(&self, query: &JobQuery) -> Result<FoundJobs, PortError>;
    /// One job at an attempt, the latest if none is named. This and what else is told of a job may be old,
    /// and says so; that there is no such job never is.
    async fn job(&self, key: &JobKey, attempt: Option<u32>) -> Result<Dated<JobDetail>, PortError>;
    /// Why a job waits, in full.
    async fn explanation(&self, key: &JobKey) -> Result<Explanation, PortError>;
    /// The job as submitted, its secrets replaced by `******`.
    async fn config(&self, key: &JobKey) -> Result<Dated<serde_json::Value>, PortError>;
    /// What happened to a job, in no particular order.
    async fn events(&self, key: &JobKey) -> Result<Dated<Vec<JobEvent>>, PortError>;
    /// One task of an attempt.
    async fn task(
        &self,
        key: &JobKey,
        attempt: u32,
        task: &TaskId,
    ) -> Result<Dated<TaskView>, PortError>;
    /// Waits for something of a job, at most so long, and answers how it stands then.
    async fn wait(
        &self,
        key: &JobKey,
        awaited: &Awaited,
        timeout: Duration,
    ) -> Result<JobSummary, PortError>;
    /// Starts or stops a job.
    async fn set_execution_type(&self, key: &JobKey, value: ExecutionType)
    -> Result<(), PortError>;
    /// Sets a tag; setting it again changes nothing.
    async fn add_tag(&self, key: &JobKey, tag: &str) -> Result<(), PortError>;
    /// Removes a tag.
    async fn remove_tag(&self, key: &JobKey, tag: &str) -> Result<(), PortError>;
}
