//! The gateway's port to this cluster, for real: users, jobs, logs, images and the node.

mod launches;
pub(crate) mod mesh;
mod waiting;

use self::waiting::Waiting;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_control::coordinator::Refused;
use muster_control::vc::{AcceptedJob, Document, Entry, NotFound, Rejected};
use muster_exec::log::{self, Range};
use muster_init::task_dir::TaskDir;
use muster_model::explanation::Explanation;
use muster_model::id::{AttemptUid, JobKey, TaskId, VcName};
use muster_model::image::ImageView;
use muster_model::job_query::JobQuery;
use muster_model::known_node::KnownNode;
use muster_model::login::Trust;
use muster_model::node::NodeView;
use muster_model::protocol;
use muster_model::state::ExecutionType;
use muster_model::vc::{VcView, WhatIf};
use muster_model::view::{Dated, Event, JobDetail, JobSummary, TaskView};
use muster_portal_gateway::LogLinkKey;
use muster_portal_gateway::cluster::{
    Awaited, ByteStream, Caller, Cluster, DEFAULT_VC, Error, Listed, LogFile, LogPart, LogRange,
    LogWish, Login, ProgressStream, Submitted, TokenInfo, UserView,
};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::accounts::{Account, Accounts};
use crate::causes::causes;
use crate::clock;
use crate::description::Descriptions;
use crate::doctor::Doctor;
use crate::documents::Documents;
use crate::images::Images;
use crate::logins::Logins;
use crate::loops::node::NodeHandle;
use crate::mesh as node_mesh;
use crate::node_status::NodeStatus;
use crate::vc::{self, VcHandle, Vcs};

/// How long a job waits for this node to be told of a new virtual cluster.
const SERVED_LIMIT: Duration = Duration::from_secs(5);

/// This cluster. Handles and shared parts only; clones are not needed, the gateway holds it in
/// an `Arc`.
#[derive(Debug)]
pub(crate) struct LocalCluster {
    vc: VcHandle,
    accounts: Accounts,
    logins: Logins,
    tasks: PathBuf,
    images: Arc<Images>,
    node: NodeStatus,
    /// How the cluster is described.
    descriptions: Descriptions,
    doctor: Doctor,
    /// The cluster's documents.
    documents: Documents,
    /// The door to the cluster.
    mesh: Arc<node_mesh::Service>,
    /// Those who wait for something of a job.
    waiting: Waiting,
}

/// The parts a cluster is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The way to the virtual clusters.
    pub(crate) vc: VcHandle,
    /// Its users, and the keys.
    pub(crate) accounts: Accounts,
    /// The directories of this node's tasks, with their logs.
    pub(crate) tasks: PathBuf,
    /// This node's images.
    pub(crate) images: Arc<Images>,
    /// What is known of this node.
    pub(crate) node: NodeStatus,
    /// How the cluster is described.
    pub(crate) descriptions: Descriptions,
    /// Looks for what is wrong.
    pub(crate) doctor: Doctor,
    /// The cluster's documents.
    pub(crate) documents: Documents,
    /// The door to the cluster.
    pub(crate) mesh: Arc<node_mesh::Service>,
}

impl LocalCluster {
    /// The way to this node's ledger.
    pub(crate) fn node_handle(&self) -> NodeHandle {
        self.node.node.clone()
    }

    /// A cluster of these parts.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts {
            vc,
            accounts,
            tasks,
            images,
            node,
            descriptions,
            doctor,
            documents,
            mesh,
        } = parts;
        Self {
            vc,
            logins: Logins::new(accounts.clone(), Arc::clone(&mesh)),
            accounts,
            tasks,
            images,
            node,
            descriptions,
            doctor,
            documents,
            mesh,
            waiting: Waiting::default(),
        }
    }

    /// The key that signs links to logs, and every change of it.
    pub(crate) fn link_key(&self) -> watch::Receiver<LogLinkKey> {
        self.accounts.link_key()
    }

    fn user_view(&self, name: &str, user: Account) -> Result<UserView, Error> {
        let mut groups = vec![DEFAULT_VC.to_owned()];
        if user.admin {
            groups.push("admingroup".to_owned());
        }
        Ok(UserView {
            name: name.parse().map_err(invalid)?,
            email: user.email,
            groups,
            extension: user.extension,
            admin: user.admin,
            vcs: self.vcs(),
        })
    }

    /// Every virtual cluster, as far as this node has heard.
    fn vcs(&self) -> Vec<VcName> {
        let description = self.descriptions.now();
        let vcs = description.and_then(|description| description.vcs().ok());
        vcs.unwrap_or_default()
    }

    /// Whether there is such a virtual cluster. Somebody may have described the cluster anew a moment
    /// ago: the leader knows.
    async fn is_vc(&self, vc: &VcName) -> Result<bool, Error> {
        if self.vcs().contains(vc) {
            return Ok(true);
        }
        let vcs = self.vc.virtual_clusters().await.map_err(committed)?;
        Ok(vcs.iter().any(|known| known.name == *vc))
    }

    fn user_named(&self, name: &str) -> Result<Account, Error> {
        self.accounts
            .account(name)
            .ok_or_else(|| Error::NoUser(name.to_owned()))
    }

    async fn accepted(&self, caller: &Caller, yaml: &str) -> Result<AcceptedJob, Error> {
        let protocol = protocol::parse(yaml).map_err(Error::InvalidJob)?;
        let mut spec = protocol.job_spec().map_err(Error::InvalidJob)?;
        let missing = protocol.missing_storages();
        if !self.is_vc(&spec.vc).await? {
            return Err(Error::Forbidden(format!(
                "User {} is not allowed to do operation in {}",
                caller.user, spec.vc
            )));
        }
        if !missing.is_empty() {
            return Err(Error::NoStorage(missing));
        }
        let key = JobKey {
            user: caller.user.clone(),
            name: protocol.name().clone(),
        };
        let (config, secrets) = protocol.split_secrets();
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
        let document = Document::take(&mut spec, config.to_string());
        Ok(AcceptedJob {
            key,
            uid: Uuid::new_v4().to_string().parse().map_err(unavailable)?,
            spec,
            document,
            sealed_secrets,
            submitted_ms: clock::now().as_millis(),
        })
    }

    fn task_dir(&self, uid: &AttemptUid) -> TaskDir {
        TaskDir::new(self.tasks.join(uid.as_str()))
    }

    async fn summary(&self, key: &JobKey) -> Result<JobSummary, Error> {
        self.sought(|| async {
            let job = self.vc.job(key.clone()).await?;
            Ok(job.ok_or_else(|| NotFound::Job(key.clone())))
        })
        .await
    }

    /// What is looked for. The job may be in a virtual cluster that was born a moment ago: where there is
    /// none, it is looked for once more in those of which this node had not heard.
    async fn sought<T, F>(&self, look: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<Result<T, NotFound>, vc::Error>>,
    {
        let found = match look().await.map_err(committed)? {
            Err(NotFound::Job(_)) if self.hears_of_more().await => {
                look().await.map_err(committed)?
            }
            found => found,
        };
        found.map_err(not_found)
    }

    /// Whether another virtual cluster has a job of that name. Two that are submitted at the same
    /// time may both be taken: both are listed then, and the newest is the one of the name.
    async fn is_elsewhere(&self, job: &AcceptedJob) -> bool {
        if self.vc.groups().len() < 2 {
            return false;
        }
        let known = self.vc.job(job.key.clone()).await;
        known.is_ok_and(|known| known.is_some_and(|known| known.vc != job.spec.vc))
    }

    /// Has this node know the log of a virtual cluster, which may have been born a moment ago.
    async fn serves(&self, vc: &VcName) -> Result<(), Error> {
        if self.vc.groups().contains_key(vc) {
            return Ok(());
        }
        self.refresh_briefing().await;
        match self.knows(std::slice::from_ref(vc)).await {
            true => Ok(()),
            false => Err(Error::Unavailable(format!(
                "this node does not know yet who leads virtual cluster {vc}; try again"
            ))),
        }
    }

    /// Asks which virtual clusters there are. Whether this node had not heard of all.
    async fn hears_of_more(&self) -> bool {
        let known = self.vc.groups();
        self.refresh_briefing().await;
        let told = self.accounts.vcs();
        told.iter().any(|vc| !known.contains_key(vc)) && self.knows(&told).await
    }

    /// Asks the leader for the newest briefing. Without an answer this node goes by the one that it
    /// has.
    async fn refresh_briefing(&self) {
        let member = self.mesh.member();
        let _ = member.briefings().refresh(Instant::now()).await;
    }

    /// Waits until this node knows the logs of these virtual clusters, of which it was told.
    async fn knows(&self, told: &[VcName]) -> bool {
        let mut seat = self.vc.seat();
        // By what it is given: the seat is locked meanwhile.
        let known = |vcs: &Vcs| told.iter().all(|vc| vcs.contains_key(vc));
        let served = seat.wait_for(|seat| seat.vcs().is_some_and(known));
        matches!(timeout(SERVED_LIMIT, served).await, Ok(Ok(_)))
    }

    async fn change(&self, caller: &Caller, key: &JobKey, entry: Entry) -> Result<(), Error> {
        if !caller.admin && caller.user != key.user {
            return Err(Error::Forbidden(format!(
                "User {} is not allowed to do operation in {key}",
                caller.user
            )));
        }
        let vc = self.sought(|| self.vc.vc_of(key)).await?;
        self.vc.change(&vc, entry).await.map_err(committed)?;
        Ok(())
    }
}

#[async_trait]
impl Cluster for LocalCluster {
    async fn login(&self, user: &str, password: &str, trust: Trust) -> Result<Login, Error> {
        self.logins.login(user, password, trust).await
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, Error> {
        self.logins.check(token).await
    }

    async fn tokens(&self, caller: &Caller) -> Result<Vec<String>, Error> {
        Ok(self.accounts.tokens(caller.user.as_str(), clock::now_s()))
    }

    async fn issue_application_token(&self, caller: &Caller) -> Result<String, Error> {
        self.logins.issue_application_token(&caller.user).await
    }

    async fn revoke_token(&self, caller: &Caller, token: &str) -> Result<(), Error> {
        self.logins.revoke(&caller.user, token).await
    }

    async fn users(&self) -> Result<Vec<UserView>, Error> {
        self.accounts
            .names()
            .iter()
            .filter_map(|name| Some((name, self.accounts.account(name)?)))
            .map(|(name, user)| self.user_view(name, user))
            .collect()
    }

    async fn user(&self, name: &str) -> Result<UserView, Error> {
        self.user_view(name, self.user_named(name)?)
    }

    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<Submitted, Error> {
        let job = self.accepted(caller, yaml).await?;
        // What is left is for the jobs that run.
        if let Some(problem) = self.node.disk_problem() {
            return Err(Error::Unavailable(format!(
                "no new jobs are accepted: {problem}"
            )));
        }
        self.serves(&job.spec.vc).await?;
        if self.is_elsewhere(&job).await {
            return Err(Error::JobExists(job.key.to_string()));
        }
        let submitted = Submitted {
            key: job.key.clone(),
            warnings: job.spec.warnings.clone(),
        };
        self.vc.submit(job).await.map_err(committed)?;
        Ok(submitted)
    }

    async fn jobs(&self, query: &JobQuery) -> Result<Listed, Error> {
        let known = self.vc.groups();
        let is_known = |name: &String| known.keys().any(|vc| vc.as_str() == name);
        if !query.filter.vcs.iter().all(is_known) {
            self.hears_of_more().await;
        }
        self.vc.listed(query.clone()).await.map_err(committed)
    }

    async fn job(&self, key: &JobKey, attempt: Option<u32>) -> Result<Dated<JobDetail>, Error> {
        self.sought(|| self.vc.detail(key.clone(), attempt)).await
    }

    async fn explanation(&self, key: &JobKey) -> Result<Explanation, Error> {
        let told = self.sought(|| self.vc.explanation(key.clone()));
        let mut explanation = told.await?;
        self.add_pulls(&mut explanation.launches).await;
        Ok(explanation)
    }

    async fn nodes(&self) -> Result<Vec<KnownNode>, Error> {
        self.vc.nodes().await.map_err(committed)
    }

    async fn virtual_clusters(&self) -> Result<Vec<VcView>, Error> {
        self.vc.virtual_clusters().await.map_err(committed)
    }

    async fn what_if(&self, text: &str) -> Result<WhatIf, Error> {
        let what = self.vc.what_if(text.to_owned()).await.map_err(committed)?;
        what.map_err(Error::InvalidDocument)
    }

    async fn job_config(&self, key: &JobKey) -> Result<Dated<serde_json::Value>, Error> {
        let config = self.sought(|| self.vc.config(key.clone()));
        let Dated { value, age } = config.await?;
        let value = serde_json::from_str(&value).map_err(unavailable)?;
        Ok(Dated { value, age })
    }

    async fn set_execution_type(
        &self,
        caller: &Caller,
        key: &JobKey,
        value: ExecutionType,
    ) -> Result<(), Error> {
        let at_ms = clock::now().as_millis();
        self.change(
            caller,
            key,
            Entry::SetExecution {
                job: key.clone(),
                value,
                at_ms,
            },
        )
        .await
    }

    async fn add_tag(&self, caller: &Caller, key: &JobKey, tag: &str) -> Result<(), Error> {
        self.change(
            caller,
            key,
            Entry::AddTag {
                job: key.clone(),
                tag: tag.to_owned(),
            },
        )
        .await
    }

    async fn remove_tag(&self, caller: &Caller, key: &JobKey, tag: &str) -> Result<(), Error> {
        self.change(
            caller,
            key,
            Entry::RemoveTag {
                job: key.clone(),
                tag: tag.to_owned(),
            },
        )
        .await
    }

    async fn events(&self, key: &JobKey) -> Result<Dated<Vec<Event>>, Error> {
        self.sought(|| self.vc.events(key.clone())).await
    }

    async fn task(
        &self,
        key: &JobKey,
        attempt: u32,
        task: &TaskId,
    ) -> Result<Dated<TaskView>, Error> {
        let look = || self.vc.task(key.clone(), attempt, task.clone());
        self.sought(look).await
    }

    async fn log_files(&self, uid: &AttemptUid) -> Result<Vec<LogFile>, Error> {
        let dir = self.task_dir(uid);
        if !dir.log().exists() {
            return Err(Error::NoLog);
        }
        let files = log::list(&dir);
        Ok(files
            .into_iter()
            .map(|file| LogFile {
                name: file.name,
                size: file.size,
            })
            .collect())
    }

    async fn read_log(
        &self,
        uid: &AttemptUid,
        name: &str,
        wish: LogWish,
    ) -> Result<LogPart, Error> {
        let range = match wish.range {
            LogRange::All => Range::All,
            LogRange::Tail(bytes) => Range::Tail(bytes),
            LogRange::Bytes { start, end } => Range::Bytes { start, end },
        };
        let dir = self.task_dir(uid);
        let part = match (wish.follow, wish.whole) {
            (false, false) => log::read(&dir, name, range).await,
            (false, true) => log::read_whole(&dir, name, range).await,
            (true, false) => log::follow(&dir, name, range, self.vc.applied()).await,
            (true, true) => log::follow_whole(&dir, name, range, self.vc.applied()).await,
        };
        let log::LogPart {
            start,
            size,
            length,
            body,
        } = part.map_err(log_error)?;
        Ok(LogPart {
            start,
            size,
            length,
            body,
        })
    }

    async fn wait(
        &self,
        key: &JobKey,
        awaited: &Awaited,
        timeout: Duration,
    ) -> Result<JobSummary, Error> {
        let mut watch = self.waiting.watch(self.vc.applied());
        let end = Instant::now() + timeout;
        loop {
            watch.mark();
            let job = self.summary(key).await?;
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

    async fn node(&self) -> Result<NodeView, Error> {
        self.node
            .view()
            .await
            .ok_or_else(|| Error::Unavailable("the agent is ending".into()))
    }

    async fn images(&self) -> Result<Vec<ImageView>, Error> {
        self.images.list().await
    }

    async fn import_image(
        &self,
        name: Option<String>,
        archive: ByteStream,
    ) -> Result<ProgressStream, Error> {
        Ok(self.images.import(name.as_deref(), archive))
    }

    async fn pull_image(&self, name: &str) -> Result<ProgressStream, Error> {
        Ok(self.images.pull(name))
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        self.images.remove(name).await
    }
}

pub(crate) fn committed(error: vc::Error) -> Error {
    match error {
        vc::Error::Rejected(rejected) => match rejected {
            Rejected::JobExists(key) => Error::JobExists(key.to_string()),
            Rejected::NoJob(key) => Error::NoJob(key.to_string()),
            Rejected::NoTag(tag) => Error::NoTag(tag),
            Rejected::QueueFull { .. } => Error::Unavailable(rejected.to_string()),
            other => Error::Invalid(other.to_string()),
        },
        vc::Error::Impossible(Refused { path, why }) => {
            let problem = protocol::Problem::whole(why);
            Error::InvalidJob(vec![protocol::Problem { path, ..problem }])
        }
        vc::Error::Away(why) => Error::Unavailable(why),
    }
}

fn not_found(error: NotFound) -> Error {
    match error {
        NotFound::Job(key) => Error::NoJob(key.to_string()),
        NotFound::Attempt { job, attempt } => Error::NoAttempt {
            job: job.to_string(),
            attempt,
        },
        NotFound::Task { job, task } => Error::NoTask {
            job: job.to_string(),
            task: task.to_string(),
        },
    }
}

fn log_error(error: log::Error) -> Error {
    match error {
        log::Error::NoLog(_) => Error::NoLog,
        log::Error::Io { .. } => unavailable(error),
    }
}

fn unavailable(error: impl std::error::Error) -> Error {
    Error::Unavailable(causes(&error))
}

fn invalid(error: muster_model::id::Error) -> Error {
    Error::Invalid(error.to_string())
}
