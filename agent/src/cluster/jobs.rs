//! Jobs: asked for at the virtual clusters' leaders, or a copy of their logs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_control::vc::{AcceptedJob, JobDocument, NotFound, VcEntry};
use muster_model::explanation::Explanation;
use muster_model::forecast::JobForecast;
use muster_model::id::{JobKey, TaskId, UserName, VcName};
use muster_model::job::{JobSpec, JobStorage};
use muster_model::job_query::{JobFilter, JobQuery};
use muster_model::protocol::{self, CheckedJob, NamedStorage, Secrets};
use muster_model::remark::Remark;
use muster_model::sight::JobSight;
use muster_model::stacks::{JobStacks, StacksFilter};
use muster_model::state::ExecutionType;
use muster_model::storage::{ClusterStorages, Storage};
use muster_model::vc::unknown;
use muster_model::view::{Dated, JobDetail, JobEvent, JobSummary};
use muster_portal_gateway::port::{
    AcceptedSubmission, Awaited, Caller, FoundJobs, HiddenFuture, JobReader, JobTask, Jobs,
    JobsRevision, PortError,
};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::errors::{told, unavailable};
use super::job_ssh;
use super::sights::JobSights;
use super::waiting::WaitingClients;
use crate::accounts::Accounts;
use crate::clock;
use crate::description::Descriptions;
use crate::documents::policy::PolicyInForce;
use crate::documents::storages::StoragesInForce;
use crate::mesh::Service;
use crate::node_status::NodeStatus;
use crate::vc::{self, UnseenJob, VcHandle, Vcs};

/// A job, and its document as anybody may see it.
type NewJob = (AcceptedJob, serde_json::Value);

/// How long a job waits for this node to be told of a new virtual cluster.
const SERVED_LIMIT: Duration = Duration::from_secs(5);

/// The jobs of this cluster.
#[derive(Debug)]
pub(super) struct LocalJobs {
    pub(super) vc: VcHandle,
    /// Seal the secrets of jobs.
    pub(super) accounts: Accounts,
    pub(super) descriptions: Descriptions,
    pub(super) mesh: Arc<Service>,
    pub(super) node: NodeStatus,
    pub(super) waiting: WaitingClients,
    pub(super) sights: JobSights,
    pub(super) storages: StoragesInForce,
    pub(super) policy: PolicyInForce,
}

impl LocalJobs {
    /// Whether there is such a virtual cluster. Somebody may have described the cluster anew a moment
    /// ago: the leader knows.
    async fn is_vc(&self, vc: &VcName) -> Result<bool, PortError> {
        if self.descriptions.vcs().contains(vc) {
            return Ok(true);
        }
        let vcs = self.vc.virtual_clusters().await?;
        Ok(vcs.iter().any(|known| known.name == *vc))
    }

    async fn accepted(&self, caller: &Caller, yaml: &str) -> Result<NewJob, PortError> {
        let protocol = protocol::parse(yaml).map_err(PortError::InvalidJob)?;
        let mut spec = protocol.job_spec().map_err(PortError::InvalidJob)?;
        if !self.is_vc(&spec.vc).await? {
            // OpenPAI's server answers 403 for a virtual cluster that does not exist, too.
            return Err(PortError::Forbidden(unknown(spec.vc.as_str())));
        }
        self.check_grant(caller, &spec.vc)?;
        self.check_storages(caller, &protocol, &mut spec)?;
        let bounds = self.policy.now().jobs.of(&spec.vc);
        bounds.check(&spec).map_err(PortError::InvalidJob)?;
        let key = JobKey {
            user: caller.user.clone(),
            name: protocol.name().clone(),
        };
        let (config, mut secrets) = protocol.split_secrets();
        self.prepare_ssh(caller, &mut spec, &mut secrets);
        let sealed_secrets = if secrets.is_empty() {
            Vec::new()
        } else {
            let bytes = postcard::to_stdvec(&secrets).map_err(unavailable)?;
            let keyring = self.accounts.keyring().map_err(unavailable)?;
            keyring
                .sealer
                .seal(&key.to_string(), &bytes)
                .map_err(unavailable)?
        };
        let document = JobDocument::take(&mut spec, config.to_string());
        let job = AcceptedJob {
            key,
            uid: Uuid::new_v4().to_string().parse().map_err(unavailable)?,
            spec,
            document,
            sealed_secrets,
            submitted_ms: clock::now().as_millis(),
        };
        Ok((job, config))
    }

    /// Gives a job whose tasks can be logged in to its keys.
    fn prepare_ssh(&self, caller: &Caller, spec: &mut JobSpec, secrets: &mut Secrets) {
        let account = self.accounts.account(caller.user.as_str());
        let extension = account.map(|account| account.extension).unwrap_or_default();
        job_ssh::add_system_keys(spec, &extension);
        if spec.roles.iter().any(|role| role.has_ssh) {
            secrets.add_ssh_keys(job_ssh::new_key(), job_ssh::new_key());
        }
    }

    /// A job that its virtual cluster can be given, as far as this node knows.
    async fn ready(&self, caller: &Caller, yaml: &str) -> Result<NewJob, PortError> {
        self.mesh.check_membership().await.map_err(told)?;
        let (job, document) = self.accepted(caller, yaml).await?;
        // What is left is for the jobs that run.
        if let Some(problem) = self.node.disk_problem() {
            return Err(PortError::Unavailable(format!(
                "no new jobs are accepted: {problem}"
            )));
        }
        self.serves(&job.spec.vc).await?;
        if self.is_elsewhere(&job).await {
            return Err(self.exists(&job.key, &document).await);
        }
        Ok((job, document))
    }

    /// That there is a job of that name, and whether it is the one of this document.
    async fn exists(&self, key: &JobKey, document: &serde_json::Value) -> PortError {
        // That it exists is known; what it is, perhaps nobody says now.
        // It is a job of the caller's own.
        let stored = self.config(&JobSight::All, key).await.ok();
        PortError::JobExists {
            job: key.to_string(),
            same: stored.map(|stored| stored.value == *document),
        }
    }

    /// Whether a group of the caller's lets them submit to this virtual cluster. An admin may use all.
    fn check_grant(&self, caller: &Caller, vc: &VcName) -> Result<(), PortError> {
        let rights = || self.accounts.rights(&caller.user);
        if caller.admin || rights().is_some_and(|rights| rights.vcs.contains(vc)) {
            return Ok(());
        }
        let user = &caller.user;
        Err(PortError::Forbidden(format!(
            "User {user} is not allowed to do operation in {vc}: no group of theirs has this virtual cluster. \
             An admin can add one: muster user set {user} --group +{vc}"
        )))
    }

    /// Refuses storages that there are not, or that no group of the caller's grants: like upstream, in the
    /// same words.
    fn check_storages(
        &self,
        caller: &Caller,
        protocol: &CheckedJob,
        spec: &mut JobSpec,
    ) -> Result<(), PortError> {
        let rights = self.accounts.rights(&caller.user);
        let granted = rights.map(|rights| rights.storages).unwrap_or_default();
        let declared = self.storages.now();
        let is_there = |name: &String| granted.contains(name) && declared.find(name).is_some();
        let named = protocol.storages();
        let missing = named
            .iter()
            .filter(|one| !one.name.as_ref().is_some_and(is_there));
        let missing: Vec<_> = missing.map(NamedStorage::missing).collect();
        if !missing.is_empty() {
            return Err(PortError::NoStorage(missing));
        }
        let unmounted = |one: &NamedStorage| {
            let storage = declared.find(one.name.as_ref()?)?;
            (!storage.is_mounted()).then(|| one.unmounted(storage.kind.as_str()))
        };
        let unmounted: Vec<_> = named.iter().filter_map(unmounted).collect();
        if !unmounted.is_empty() {
            return Err(PortError::NoStorage(unmounted));
        }
        if protocol.wants_default_storages() {
            let mut defaults = self.default_storages(caller);
            defaults.retain(is_there);
            add_defaults(&declared, defaults, spec);
        }
        Ok(())
    }

    /// The first storage of each group of the caller's.
    fn default_storages(&self, caller: &Caller) -> Vec<String> {
        let account = self.accounts.account(caller.user.as_str());
        let own = account.map(|account| account.groups).unwrap_or_default();
        let groups = self.accounts.groups().into_iter();
        let own = groups.filter(|(name, _)| own.contains(name));
        let mut defaults = Vec::new();
        for (_, group) in own {
            let first = group.acl.storages.first();
            defaults.extend(first.filter(|name| !defaults.contains(*name)).cloned());
        }
        defaults
    }

    async fn summary(&self, sight: &JobSight, key: &JobKey) -> Result<JobSummary, PortError> {
        let look = || async {
            let job = self.vc.job(key.clone(), sight).await?;
            Ok(job.ok_or_else(|| NotFound::Job(key.clone()).into()))
        };
        let job = self.sought(look).await?;
        sight.check(&job.vc, key)?;
        Ok(job)
    }

    /// What is looked for. The job may be in a virtual cluster that was born a moment ago: where there is
    /// none, it is looked for once more in those of which this node had not heard.
    async fn sought<T, F>(&self, look: impl Fn() -> F) -> Result<T, PortError>
    where
        F: Future<Output = Result<Result<T, UnseenJob>, vc::VcError>>,
    {
        let found = match self.asked(look().await.map_err(PortError::from)).await? {
            Err(UnseenJob::Missing(NotFound::Job(_))) if self.hears_of_more().await => {
                look().await?
            }
            found => found,
        };
        found.map_err(|unseen| match unseen {
            UnseenJob::Missing(missing) => not_found(missing),
            UnseenJob::Hidden(hidden) => hidden.into(),
        })
    }

    /// What was asked of the cluster. An expelled node says so in the place of a leader that does not answer.
    async fn asked<T>(&self, answer: Result<T, PortError>) -> Result<T, PortError> {
        if matches!(answer, Err(PortError::Unavailable(_))) {
            self.mesh.check_membership().await.map_err(told)?;
        }
        answer
    }

    /// Whether another virtual cluster has a job of that name. Two that are submitted at the same
    /// time may both be taken: both are listed then, and the newest is the one of the name.
    async fn is_elsewhere(&self, job: &AcceptedJob) -> bool {
        if self.vc.groups().len() < 2 {
            return false;
        }
        let known = self.vc.job(job.key.clone(), &JobSight::All).await;
        known.is_ok_and(|known| known.is_some_and(|known| known.vc != job.spec.vc))
    }

    /// Has this node know the log of a virtual cluster, which may have been born a moment ago.
    async fn serves(&self, vc: &VcName) -> Result<(), PortError> {
        if self.vc.groups().contains_key(vc) {
            return Ok(());
        }
        self.mesh.member().cluster_maps().refresh_now().await;
        match self.knows(std::slice::from_ref(vc)).await {
            true => Ok(()),
            false => Err(PortError::Unavailable(format!(
                "this node does not know yet who leads virtual cluster {vc}; try again"
            ))),
        }
    }

    /// Asks which virtual clusters there are. Whether this node had not heard of all.
    async fn hears_of_more(&self) -> bool {
        let known = self.vc.groups();
        self.mesh.member().cluster_maps().refresh_now().await;
        let told = self.accounts.vcs();
        told.iter().any(|vc| !known.contains_key(vc)) && self.knows(&told).await
    }

    /// Waits until this node knows the logs of these virtual clusters, of which it was told.
    async fn knows(&self, told: &[VcName]) -> bool {
        let mut seat = self.vc.seat();
        // By what it is given: the seat is locked meanwhile.
        let known = |vcs: &Vcs| told.iter().all(|vc| vcs.contains_key(vc));
        let served = seat.wait_for(|seat| seat.vcs().is_some_and(known));
        matches!(timeout(SERVED_LIMIT, served).await, Ok(Ok(_)))
    }

    async fn change(&self, key: &JobKey, entry: VcEntry) -> Result<(), PortError> {
        let look = || async { Ok(self.vc.vc_of(key).await?.map_err(UnseenJob::from)) };
        let vc = self.sought(look).await?;
        self.vc.change(&vc, entry).await?;
        Ok(())
    }
}

#[async_trait]
impl Jobs for LocalJobs {
    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<AcceptedSubmission, PortError> {
        let (job, document) = self.ready(caller, yaml).await?;
        let submitted = AcceptedSubmission {
            key: job.key.clone(),
            warnings: job.spec.warnings.clone(),
        };
        match self.vc.submit(job).await.map_err(PortError::from) {
            Err(PortError::JobExists { .. }) => Err(self.exists(&submitted.key, &document).await),
            done => done.map(|_| submitted),
        }
    }

    async fn forecast(
        &self,
        caller: &Caller,
        sight: &JobSight,
        yaml: &str,
    ) -> Result<JobForecast, PortError> {
        let (job, document) = self.ready(caller, yaml).await?;
        let key = job.key.clone();
        match self.vc.forecast(job, sight).await.map_err(PortError::from) {
            Err(PortError::JobExists { .. }) => Err(self.exists(&key, &document).await),
            done => done,
        }
    }

    fn sight(&self, reader: &JobReader) -> Result<JobSight, PortError> {
        self.sights.of(reader)
    }

    fn until_hidden(&self, reader: &JobReader, vc: &VcName, owner: &UserName) -> HiddenFuture {
        let sights = self.sights.clone();
        Box::pin(sights.until_hidden(reader.clone(), vc.clone(), owner.clone()))
    }

    async fn list(&self, sight: &JobSight, query: &JobQuery) -> Result<FoundJobs, PortError> {
        let known = self.vc.groups();
        let is_known = |name: &String| known.keys().any(|vc| vc.as_str() == name);
        if !query.filter.vcs.iter().all(is_known) {
            self.hears_of_more().await;
        }
        let limits = sight.list(&query.filter, self.vc.groups().keys())?;
        let listed = self.vc.listed(query.clone(), sight).await;
        let mut found = self.asked(listed.map_err(PortError::from)).await?;
        found.hidden = limits.told(found.total)?;
        Ok(found)
    }

    async fn revision(&self, filter: &JobFilter) -> Option<JobsRevision> {
        let known = self.vc.groups();
        let is_known = |name: &String| known.keys().any(|vc| vc.as_str() == name);
        match filter.vcs.iter().all(is_known) {
            true => self.vc.revision(filter).await,
            // Whether there is such a virtual cluster is to be asked.
            false => None,
        }
    }

    async fn job(
        &self,
        sight: &JobSight,
        key: &JobKey,
        attempt: Option<u32>,
    ) -> Result<Dated<JobDetail>, PortError> {
        let found = self.sought(|| self.vc.detail(key, attempt, sight));
        Ok(found.await?.1)
    }

    async fn explanation(&self, sight: &JobSight, key: &JobKey) -> Result<Explanation, PortError> {
        let told = self.sought(|| self.vc.explanation(key.clone(), sight));
        let mut explanation = told.await?;
        self.add_pulls(&mut explanation.launches).await;
        Ok(explanation)
    }

    async fn stacks(
        &self,
        sight: &JobSight,
        key: &JobKey,
        filter: &StacksFilter,
    ) -> Result<JobStacks, PortError> {
        let found = Jobs::job(self, sight, key, None).await?;
        self.taken(&found.value, filter).await
    }

    async fn config(
        &self,
        sight: &JobSight,
        key: &JobKey,
    ) -> Result<Dated<serde_json::Value>, PortError> {
        let config = self.sought(|| self.vc.config(key, sight));
        let (_, Dated { value, age }) = config.await?;
        let value = serde_json::from_str(&value).map_err(unavailable)?;
        Ok(Dated { value, age })
    }

    async fn events(
        &self,
        sight: &JobSight,
        key: &JobKey,
    ) -> Result<Dated<Vec<JobEvent>>, PortError> {
        let events = self.sought(|| self.vc.events(key, sight));
        Ok(events.await?.1)
    }

    async fn task(
        &self,
        sight: &JobSight,
        key: &JobKey,
        (attempt, task): (u32, &TaskId),
    ) -> Result<JobTask, PortError> {
        let look = || self.vc.task(key, (attempt, task), sight);
        let (vc, found) = self.sought(look).await?;
        Ok(JobTask { vc, found })
    }

    async fn wait(
        &self,
        sight: &JobSight,
        key: &JobKey,
        awaited: &Awaited,
        timeout: Duration,
    ) -> Result<JobSummary, PortError> {
        let mut watch = self.waiting.watch(self.vc.applied());
        let end = Instant::now() + timeout;
        loop {
            watch.mark();
            let job = self.summary(sight, key).await?;
            if awaited.is_reached(&job) || Instant::now() >= end {
                return Ok(job);
            }
            let leads = self.vc.leads(&job.vc);
            if watch.next(leads, end).await.is_err() {
                // The agent is ending: how it stands is the answer.
                return Ok(job);
            }
        }
    }

    async fn set_execution_type(
        &self,
        key: &JobKey,
        value: ExecutionType,
    ) -> Result<(), PortError> {
        let (job, at_ms) = (key.clone(), clock::now().as_millis());
        let entry = VcEntry::SetExecution { job, value, at_ms };
        self.change(key, entry).await
    }

    async fn add_tag(&self, key: &JobKey, tag: &str) -> Result<(), PortError> {
        let (job, tag) = (key.clone(), tag.to_owned());
        self.change(key, VcEntry::AddTag { job, tag }).await
    }

    async fn remove_tag(&self, key: &JobKey, tag: &str) -> Result<(), PortError> {
        let (job, tag) = (key.clone(), tag.to_owned());
        self.change(key, VcEntry::RemoveTag { job, tag }).await
    }
}

/// Gives all tasks the user's default storages, each where OpenPAI mounts it.
fn add_defaults(declared: &ClusterStorages, defaults: Vec<String>, spec: &mut JobSpec) {
    // Those of plugins: all roles have the same.
    let mut storages = spec
        .roles
        .first()
        .map_or_else(Vec::new, |role| role.storages.clone());
    for name in defaults {
        let is_mounted = declared.find(&name).is_some_and(Storage::is_mounted);
        let storage = JobStorage::usual(name);
        let problem = match is_mounted {
            true => protocol::beside(&storages, &storage),
            false => Some("it is of a type that Muster does not mount".to_owned()),
        };
        match problem {
            None => {
                for role in &mut spec.roles {
                    role.storages.push(storage.clone());
                }
                storages.push(storage);
            }
            Some(why) => spec.warnings.push(Remark::at(
                ".extras.storages",
                format!(
                    "Your default storage {} is not mounted: {why}.",
                    storage.name
                ),
            )),
        }
    }
}

fn not_found(error: NotFound) -> PortError {
    match error {
        NotFound::Job(key) => PortError::NoJob(key.to_string()),
        NotFound::Attempt { job, attempt } => PortError::NoAttempt {
            job: job.to_string(),
            attempt,
        },
        NotFound::Task { job, task } => PortError::NoTask {
            job: job.to_string(),
            task: task.to_string(),
        },
    }
}
