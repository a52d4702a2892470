//! Jobs, with their attempts and tasks.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use muster_model::explanation::Explanation;
use muster_model::forecast::JobForecast;
use muster_model::id::{JobKey, TaskId, UserName, VcName};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::remark::Remark;
use muster_model::sight::{HiddenJobs, JobSight};
use muster_model::stacks::{JobStacks, StacksFilter};
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

/// Whose sight of jobs is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobReader {
    /// Root on a node: sees all.
    Root,
    /// A user, by what their groups allow now.
    User(UserName),
    /// A guest, who has no login.
    Guest,
}

/// Ends when something is not to be seen any more.
pub type HiddenFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task of a job, and the job's virtual cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTask {
    /// The virtual cluster.
    pub vc: VcName,
    /// The task.
    pub found: Dated<TaskView>,
}

/// Jobs of a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundJobs {
    /// Those that were asked for. Each virtual cluster gives its first.
    pub jobs: Vec<JobSummary>,
    /// How many the filter takes of those that are seen.
    pub total: usize,
    /// Virtual clusters whose leaders do not answer, and no copy of their logs either: their jobs are
    /// missing.
    pub away: Vec<VcName>,
    /// Those whose jobs are told by a copy, and how old that is.
    pub aged: Vec<Age>,
    /// Jobs that are left out, for the user does not see them.
    pub hidden: Vec<HiddenJobs>,
}

/// What a list of jobs follows from: by virtual cluster, a number of its log and one of its place in that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobsRevision(pub BTreeMap<VcName, (u64, u64)>);

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

/// Jobs. [`PortError::NoJob`] where there is none of that name. All that is told of one is told by the sight
/// of a user: [`PortError::Hidden`] where they do not see it, and other jobs are not named that they do not
/// see. Whether they may change it was checked before.
#[async_trait]
pub trait Jobs: std::fmt::Debug + Send + Sync {
    /// Accepts a job. When this returns, the job is on disk and every read shows it.
    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<AcceptedSubmission, PortError>;
    /// What would become of a job if it were submitted now, with the refusals of a submission. Other jobs are
    /// named as far as they are seen. Nothing is changed by it.
    async fn forecast(
        &self,
        caller: &Caller,
        sight: &JobSight,
        yaml: &str,
    ) -> Result<JobForecast, PortError>;
    /// Which jobs a reader sees now, by the policy and their groups. [`PortError::InvalidToken`] where there is
    /// no such user.
    fn sight(&self, reader: &JobReader) -> Result<JobSight, PortError>;
    /// Ends as soon as a reader does not see the jobs of this owner in a virtual cluster any more.
    fn until_hidden(&self, reader: &JobReader, vc: &VcName, owner: &UserName) -> HiddenFuture;
    /// Lists jobs, in no particular order. [`PortError::Hidden`] if the query asks for jobs that are hidden:
    /// never an empty list.
    async fn list(&self, sight: &JobSight, query: &JobQuery) -> Result<FoundJobs, PortError>;
    /// What a list of the jobs that a filter takes follows from now: while it is the same, so is every list without
    /// reasons. None where that is not known, as where a leader does not answer.
    async fn revision(&self, filter: &JobFilter) -> Option<JobsRevision>;
    /// One job at an attempt, the latest if none is named. This and what else is told of a job may be old,
    /// and says so; that there is no such job never is.
    async fn job(
        &self,
        sight: &JobSight,
        key: &JobKey,
        attempt: Option<u32>,
    ) -> Result<Dated<JobDetail>, PortError>;
    /// Why a job waits, in full.
    async fn explanation(&self, sight: &JobSight, key: &JobKey) -> Result<Explanation, PortError>;
    /// What the tasks of a job do at this moment. [`PortError::NotNow`] where none of those that are asked for runs,
    /// [`PortError::Invalid`] where there is no such task.
    async fn stacks(
        &self,
        sight: &JobSight,
        key: &JobKey,
        filter: &StacksFilter,
    ) -> Result<JobStacks, PortError>;
    /// The job as submitted, its secrets replaced by `******`.
    async fn config(
        &self,
        sight: &JobSight,
        key: &JobKey,
    ) -> Result<Dated<serde_json::Value>, PortError>;
    /// What happened to a job, in no particular order.
    async fn events(
        &self,
        sight: &JobSight,
        key: &JobKey,
    ) -> Result<Dated<Vec<JobEvent>>, PortError>;
    /// One task of an attempt.
    async fn task(
        &self,
        sight: &JobSight,
        key: &JobKey,
        (attempt, task): (u32, &TaskId),
    ) -> Result<JobTask, PortError>;
    /// Waits for something of a job, at most so long, and answers how it stands then.
    async fn wait(
        &self,
        sight: &JobSight,
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
