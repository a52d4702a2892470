//! Jobs in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use muster_model::explanation::Explanation;
use muster_model::forecast::{ForecastOutcome, JobForecast};
use muster_model::id::{InvalidName, JobKey, TaskId, UserName, VcName};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::policy::AccessPolicy;
use muster_model::protocol::{JobProblem, ProblemAdvice};
use muster_model::remark::Remark;
use muster_model::sight::JobSight;
use muster_model::stacks::{JobStacks, StacksFilter, TaskStacks};
use muster_model::state::{ExecutionType, SubState};
use muster_model::vc::Amount;
use muster_model::view::{Age, Dated, JobDetail, JobEvent, JobSummary, Retries};
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

use super::{FakeCluster, NOW_S};
use crate::port::{
    AcceptedSubmission, Awaited, Caller, DEFAULT_VC, FoundJobs, HiddenFuture, JobReader, JobTask,
    Jobs, JobsRevision, PortError,
};

/// A line of a job that begins so is a warning about it.
const WARNING: &str = "# warning: ";
/// How often a job is looked at that is waited for.
const WAIT_POLL: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct FakeJobs {
    pub(super) jobs: BTreeMap<JobKey, JobDetail>,
    events: BTreeMap<JobKey, Vec<JobEvent>>,
    /// As they were submitted.
    texts: BTreeMap<JobKey, String>,
    /// Virtual clusters whose leaders do not answer.
    pub(super) away: Vec<VcName>,
    pub(super) aged: Vec<Age>,
    access: watch::Sender<AccessPolicy>,
    forecast: Option<JobForecast>,
    explanations: BTreeMap<JobKey, Explanation>,
    stacks: BTreeMap<JobKey, Vec<TaskStacks>>,
    configs: BTreeMap<JobKey, serde_json::Value>,
}

impl FakeJobs {
    /// Those that have not ended.
    pub(super) fn open(&self) -> Vec<String> {
        let jobs = self.jobs.values().map(|job| &job.summary);
        let open = jobs.filter(|job| !job.state().is_final());
        open.map(|job| job.key.to_string()).collect()
    }
}

impl FakeCluster {
    /// Puts a job there, or changes it.
    pub fn put(&self, job: JobDetail) {
        let jobs = &mut self.state().jobs.jobs;
        jobs.insert(job.summary.key.clone(), job);
    }

    /// Adds an event.
    pub fn add_event(&self, key: &JobKey, event: JobEvent) {
        let events = &mut self.state().jobs.events;
        events.entry(key.clone()).or_default().push(event);
    }

    /// Makes the leader of a virtual cluster not answer: its jobs are missing in listings.
    pub fn silence(&self, vc: VcName) {
        let mut state = self.state();
        state.jobs.jobs.retain(|_, job| job.summary.vc != vc);
        state.jobs.away.push(vc);
    }

    /// From now on a copy of its log answers for a virtual cluster, in place of its leader: this old.
    pub fn age(&self, age: Age) {
        self.state().jobs.aged.push(age);
    }

    /// Says which users see which jobs.
    pub fn set_access(&self, access: AccessPolicy) {
        self.state().jobs.access.send_replace(access);
    }

    /// What is told of every job that is not submitted yet, but for its name and its warnings.
    pub fn set_forecast(&self, forecast: JobForecast) {
        self.state().jobs.forecast = Some(forecast);
    }

    /// Says why the job of an explanation waits.
    pub fn set_explanation(&self, told: Explanation) {
        let explanations = &mut self.state().jobs.explanations;
        explanations.insert(told.key.clone(), told);
    }

    /// Says what the tasks of a job do, so that it can be looked at.
    pub fn set_stacks(&self, key: &JobKey, tasks: Vec<TaskStacks>) {
        self.state().jobs.stacks.insert(key.clone(), tasks);
    }

    /// Says what the document of a job is.
    pub fn set_config(&self, key: &JobKey, config: serde_json::Value) {
        self.state().jobs.configs.insert(key.clone(), config);
    }

    /// A job as it would be accepted.
    fn new_submission(&self, caller: &Caller, yaml: &str) -> Result<AcceptedSubmission, PortError> {
        let name = yaml.lines().find_map(|line| line.strip_prefix("name: "));
        let key = JobKey {
            user: caller.user.clone(),
            name: name.ok_or_else(not_an_object)?.parse().map_err(invalid)?,
        };
        if self.state().jobs.jobs.contains_key(&key) {
            let submitted = self.state().jobs.texts.get(&key).cloned();
            return Err(PortError::JobExists {
                job: key.to_string(),
                same: submitted.map(|text| text == yaml),
            });
        }
        let warnings = yaml.lines().filter_map(|line| line.strip_prefix(WARNING));
        let warnings = warnings.map(|text| Remark::at("", text)).collect();
        Ok(AcceptedSubmission { key, warnings })
    }

    fn edit_job<T>(
        &self,
        key: &JobKey,
        edit: impl FnOnce(&mut JobDetail) -> Result<T, PortError>,
    ) -> Result<T, PortError> {
        match self.state().jobs.jobs.get_mut(key) {
            Some(job) => edit(job),
            None => Err(PortError::NoJob(key.to_string())),
        }
    }
}

fn new_job(key: JobKey, vc: VcName) -> JobDetail {
    JobDetail {
        summary: JobSummary {
            key,
            sub_state: SubState::AttemptCreationPending,
            exit_code: None,
            execution_type: ExecutionType::Start,
            tags: Vec::new(),
            retries: Retries::default(),
            retry_at: None,
            last_end: None,
            submitted: NOW_S * 1000,
            created: None,
            launched: None,
            attempt_launched: None,
            completed: None,
            vc,
            gpus: 0,
            gpus_idle: 0,
            tasks: 1,
            tasks_failed: 0,
            roles: 1,
            priority: None,
            waiting_for: None,
        },
        attempt: None,
        roles: Vec::new(),
        partition: None,
        run_limit: None,
        warnings: Vec::new(),
    }
}

/// A job that would start at once.
fn started(key: JobKey, vc: VcName) -> JobForecast {
    JobForecast {
        key,
        vc,
        outcome: ForecastOutcome::Starts,
        reason: None,
        takes: Amount::default(),
        tasks: 1,
        placed: 1,
        places: Vec::new(),
        nodes: 1,
        victims: Vec::new(),
        ahead: 0,
        gangs: Vec::new(),
        waiting: 0,
        warnings: Vec::new(),
    }
}

fn invalid(name: InvalidName) -> PortError {
    PortError::Invalid(name.to_string())
}

fn not_an_object() -> PortError {
    PortError::InvalidJob(vec![JobProblem {
        path: String::new(),
        message: "should be object".to_owned(),
        keyword: Some("type".to_owned()),
        schema_path: Some("#/type".into()),
        advice: ProblemAdvice::AsIs,
        params: Some(r#"{"type":"object"}"#.into()),
    }])
}

#[async_trait]
impl Jobs for FakeCluster {
    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<AcceptedSubmission, PortError> {
        let AcceptedSubmission { key, warnings } = self.new_submission(caller, yaml)?;
        let text = yaml.to_owned();
        self.state().jobs.texts.insert(key.clone(), text);
        self.put(JobDetail {
            warnings: warnings.clone(),
            ..new_job(key.clone(), DEFAULT_VC.parse().map_err(invalid)?)
        });
        Ok(AcceptedSubmission { key, warnings })
    }

    /// Every job would start, unless another is told by [`FakeCluster::set_forecast`].
    async fn forecast(
        &self,
        caller: &Caller,
        _: &JobSight,
        yaml: &str,
    ) -> Result<JobForecast, PortError> {
        let AcceptedSubmission { key, warnings } = self.new_submission(caller, yaml)?;
        let told = self.state().jobs.forecast.clone();
        let vc = DEFAULT_VC.parse().map_err(invalid)?;
        let forecast = told.unwrap_or_else(|| started(key.clone(), vc));
        Ok(JobForecast {
            key,
            warnings,
            ..forecast
        })
    }

    fn sight(&self, reader: &JobReader) -> Result<JobSight, PortError> {
        let state = self.state();
        let access = state.jobs.access.borrow().clone();
        match reader {
            JobReader::Root => Ok(JobSight::All),
            JobReader::Guest => Ok(JobSight::of(None, [].into(), &access)),
            JobReader::User(user) => {
                let rights = state.users.rights(user).ok_or(PortError::InvalidToken)?;
                Ok(match rights.admin {
                    true => JobSight::All,
                    false => JobSight::of(Some(user), rights.vcs.into_iter().collect(), &access),
                })
            }
        }
    }

    /// Looks again with every policy.
    fn until_hidden(&self, reader: &JobReader, vc: &VcName, owner: &UserName) -> HiddenFuture {
        let state = self.state();
        let rights = match reader {
            JobReader::User(user) => state.users.rights(user).filter(|user| !user.admin),
            JobReader::Root | JobReader::Guest => None,
        };
        let mut access = state.jobs.access.subscribe();
        let (vc, owner) = (vc.clone(), owner.clone());
        Box::pin(async move {
            let Some(rights) = rights else {
                return std::future::pending().await;
            };
            let vcs: BTreeSet<VcName> = rights.vcs.into_iter().collect();
            let is_hidden = |access: &AccessPolicy| {
                let sight = JobSight::of(Some(&rights.name), vcs.clone(), access);
                !sight.sees(&vc, &owner)
            };
            if access.wait_for(is_hidden).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    async fn list(&self, sight: &JobSight, query: &JobQuery) -> Result<FoundJobs, PortError> {
        let state = &self.state().jobs;
        let all = || state.jobs.values().map(|job| &job.summary);
        let vcs: BTreeSet<&VcName> = all().map(|job| &job.vc).collect();
        let limits = sight.list(&query.filter, vcs)?;
        let seen = all().filter(|job| sight.shows(*job)).cloned();
        let (jobs, total) = query.take(seen);
        Ok(FoundJobs {
            hidden: limits.told(total)?,
            jobs,
            total,
            away: state.away.clone(),
            aged: state.aged.clone(),
        })
    }

    async fn revision(&self, _: &JobFilter) -> Option<JobsRevision> {
        let state = &self.state().jobs;
        let mut vcs: BTreeMap<VcName, String> = BTreeMap::new();
        for job in state.jobs.values() {
            let text = format!("{:?}", job.summary);
            vcs.entry(job.summary.vc.clone())
                .or_default()
                .push_str(&text);
        }
        let all = vcs
            .into_iter()
            .map(|(vc, jobs)| (vc, (0, xxh3_64(jobs.as_bytes()))));
        let is_whole = state.away.is_empty() && state.aged.is_empty();
        is_whole.then(|| JobsRevision(all.collect()))
    }

    async fn job(
        &self,
        sight: &JobSight,
        key: &JobKey,
        attempt: Option<u32>,
    ) -> Result<Dated<JobDetail>, PortError> {
        let state = &self.state().jobs;
        let job = state.jobs.get(key).cloned();
        let job = job.ok_or_else(|| PortError::NoJob(key.to_string()))?;
        sight.check(&job.summary.vc, key)?;
        if let Some(attempt) = attempt
            && job.attempt.as_ref().is_none_or(|one| one.id != attempt)
        {
            let job = key.to_string();
            return Err(PortError::NoAttempt { job, attempt });
        }
        let mut ages = state.aged.iter();
        let age = ages.find(|age| age.vc == job.summary.vc).cloned();
        Ok(Dated { value: job, age })
    }

    async fn explanation(&self, sight: &JobSight, key: &JobKey) -> Result<Explanation, PortError> {
        let summary = self.job(sight, key, None).await?.value.summary;
        if let Some(told) = self.state().jobs.explanations.get(key) {
            return Ok(told.clone());
        }
        Ok(Explanation {
            key: key.clone(),
            state: summary.state(),
            waiting: u32::from(summary.waiting_for.is_some()),
            ahead: None,
            reason: summary.waiting_for,
            last_end: summary.last_end,
            gpus_idle: summary.gpus_idle,
            gangs: Vec::new(),
            launches: Vec::new(),
        })
    }

    async fn stacks(
        &self,
        sight: &JobSight,
        key: &JobKey,
        filter: &StacksFilter,
    ) -> Result<JobStacks, PortError> {
        let summary = self.job(sight, key, None).await?.value.summary;
        let state = self.state();
        let told = state.jobs.stacks.get(key);
        let Some(told) = told.filter(|_| !summary.state().is_final()) else {
            let state = summary.state();
            return Err(PortError::NotNow(format!("Job {key} is {state}")));
        };
        let is_wanted = |one: &&TaskStacks| {
            let role = filter.role.as_ref();
            role.is_none_or(|role| *role == one.task.role)
                && filter.index.is_none_or(|index| index == one.task.index)
        };
        let tasks: Vec<_> = told.iter().filter(is_wanted).cloned().collect();
        if tasks.is_empty() {
            return Err(PortError::Invalid(format!("role: {key} has no such task")));
        }
        Ok(JobStacks::of((key.clone(), 0), tasks, Vec::new(), 0))
    }

    async fn config(
        &self,
        sight: &JobSight,
        key: &JobKey,
    ) -> Result<Dated<serde_json::Value>, PortError> {
        let age = self.job(sight, key, None).await?.age;
        let put = self.state().jobs.configs.get(key).cloned();
        let value = put.unwrap_or_else(|| {
            serde_json::json!({
                "protocolVersion": 2, "name": key.name, "type": "job", "secrets": "******",
            })
        });
        Ok(Dated { value, age })
    }

    async fn events(
        &self,
        sight: &JobSight,
        key: &JobKey,
    ) -> Result<Dated<Vec<JobEvent>>, PortError> {
        let age = self.job(sight, key, None).await?.age;
        let value = self.state().jobs.events.get(key).cloned();
        let value = value.unwrap_or_default();
        Ok(Dated { value, age })
    }

    async fn task(
        &self,
        sight: &JobSight,
        key: &JobKey,
        (attempt, task): (u32, &TaskId),
    ) -> Result<JobTask, PortError> {
        let Dated { value: job, age } = self.job(sight, key, Some(attempt)).await?;
        let vc = job.summary.vc;
        let mut tasks = job.roles.into_iter().flat_map(|role| role.tasks);
        let value = tasks.find(|one| one.id == *task);
        let value = value.ok_or_else(|| PortError::NoTask {
            job: key.to_string(),
            task: task.to_string(),
        })?;
        let found = Dated { value, age };
        Ok(JobTask { vc, found })
    }

    async fn wait(
        &self,
        sight: &JobSight,
        key: &JobKey,
        awaited: &Awaited,
        timeout: Duration,
    ) -> Result<JobSummary, PortError> {
        let end = tokio::time::Instant::now() + timeout;
        loop {
            let job = self.job(sight, key, None).await?.value.summary;
            let next = tokio::time::Instant::now() + WAIT_POLL;
            if awaited.is_reached(&job) || next > end {
                return Ok(job);
            }
            tokio::time::sleep_until(next).await;
        }
    }

    async fn set_execution_type(
        &self,
        key: &JobKey,
        value: ExecutionType,
    ) -> Result<(), PortError> {
        self.edit_job(key, |job| {
            job.summary.execution_type = value;
            Ok(())
        })
    }

    async fn add_tag(&self, key: &JobKey, tag: &str) -> Result<(), PortError> {
        self.edit_job(key, |job| {
            let tags = &mut job.summary.tags;
            if !tags.iter().any(|one| one == tag) {
                tags.push(tag.to_owned());
            }
            Ok(())
        })
    }

    async fn remove_tag(&self, key: &JobKey, tag: &str) -> Result<(), PortError> {
        self.edit_job(key, |job| {
            let tags = &mut job.summary.tags;
            let found = tags.iter().position(|one| one == tag);
            tags.remove(found.ok_or_else(|| PortError::NoTag(tag.to_owned()))?);
            Ok(())
        })
    }
}
