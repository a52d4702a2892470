//! A cluster in memory: what the gateway's tests run against.
//!
//! It knows no protocol and runs nothing. Jobs are put there with [`Fake::put`], or submitted
//! as a text with a `name:` line. What it sees of other nodes it is told.

mod mesh;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use muster_model::cluster_spec::{ClusterSpec, SpecProblem};
use muster_model::explanation::Explanation;
use muster_model::id::{AttemptUid, JobKey, TaskId, VcName};
use muster_model::image::{ImageProgress, ImageView};
use muster_model::known_node::{Has, KnownNode, Share};
use muster_model::node::NodeView;
use muster_model::protocol::{Advice, Problem};
use muster_model::remark::Remark;
use muster_model::state::{ExecutionType, SubState};
use muster_model::vc::{VcView, WhatIf};
use muster_model::view::{Age, Dated, Event, JobDetail, JobSummary, Retries, TaskView};

pub use self::mesh::member;
use crate::cluster::{
    ByteStream, Caller, Cluster, DEFAULT_VC, Error, Listed, LogFile, LogPart, LogRange, LogWish,
    Login, ProgressStream, Submitted, TokenInfo, UserView,
};
use muster_model::job_query::JobQuery;
use muster_model::login::Trust;

/// When fake tokens were issued, seconds since the epoch.
const ISSUED_S: u64 = 1_795_167_174;
/// How long they work.
const LIFE_S: u64 = 604_800;

/// A line of a job that begins so is a warning about it.
const WARNING: &str = "# warning: ";

#[derive(Default)]
struct State {
    users: BTreeMap<String, (String, UserView)>,
    tokens: BTreeMap<String, Caller>,
    jobs: BTreeMap<JobKey, JobDetail>,
    events: BTreeMap<JobKey, Vec<Event>>,
    logs: BTreeMap<(AttemptUid, String), Bytes>,
    images: BTreeMap<String, ImageView>,
    node: Option<NodeView>,
    others: Vec<KnownNode>,
    is_crowded: bool,
    is_without_logs: bool,
    away: Vec<VcName>,
    aged: Vec<Age>,
    mesh: mesh::State,
}

/// See the module.
#[derive(Default)]
pub struct Fake {
    state: Mutex<State>,
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fake").finish_non_exhaustive()
    }
}

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a user.
    pub fn add_user(&self, password: &str, user: UserView) {
        let entry = (password.to_owned(), user);
        let name = entry.1.name.to_string();
        self.state().users.insert(name, entry);
    }

    /// From now on no log lies on this node.
    pub fn lose_logs(&self) {
        self.state().is_without_logs = true;
    }

    /// From now on there are too many logins at a time.
    pub fn crowd(&self) {
        self.state().is_crowded = true;
    }

    /// Makes a token valid for a caller.
    pub fn add_token(&self, token: &str, caller: Caller) {
        self.state().tokens.insert(token.to_owned(), caller);
    }

    /// Puts a job there, or changes it.
    pub fn put(&self, job: JobDetail) {
        self.state().jobs.insert(job.summary.key.clone(), job);
    }

    /// Makes the leader of a virtual cluster not answer: its jobs are missing in listings.
    pub fn silence(&self, vc: VcName) {
        let mut state = self.state();
        state.jobs.retain(|_, job| job.summary.vc != vc);
        state.away.push(vc);
    }

    /// From now on a copy of its log answers for a virtual cluster, in place of its leader: this old.
    pub fn age(&self, age: Age) {
        self.state().aged.push(age);
    }

    /// An answer that a virtual cluster gives.
    fn dated<T>(&self, vc: &VcName, value: T) -> Dated<T> {
        let state = self.state();
        let age = state.aged.iter().find(|age| age.vc == *vc).cloned();
        Dated { value, age }
    }

    /// Adds an event.
    pub fn add_event(&self, key: &JobKey, event: Event) {
        self.state()
            .events
            .entry(key.clone())
            .or_default()
            .push(event);
    }

    /// Writes a log file.
    pub fn write_log(&self, uid: &AttemptUid, name: &str, text: &'static str) {
        let key = (uid.clone(), name.to_owned());
        self.state()
            .logs
            .insert(key, Bytes::from_static(text.as_bytes()));
    }

    /// Says what this node is.
    pub fn set_node(&self, node: NodeView) {
        self.state().node = Some(node);
    }

    /// Adds another node of the cluster.
    pub fn add_node(&self, node: KnownNode) {
        self.state().others.push(node);
    }

    /// From now on this node does not answer for itself.
    pub fn lose_node(&self) {
        self.state().node = None;
    }

    fn edit<T>(
        &self,
        key: &JobKey,
        edit: impl FnOnce(&mut JobDetail) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.state().jobs.get_mut(key) {
            Some(job) => edit(job),
            None => Err(Error::NoJob(key.to_string())),
        }
    }
}

fn new_job(key: JobKey, now_ms: u64) -> Result<JobDetail, Error> {
    let vc = crate::cluster::DEFAULT_VC;
    Ok(JobDetail {
        summary: JobSummary {
            key,
            sub_state: SubState::AttemptCreationPending,
            exit_code: None,
            execution_type: ExecutionType::Start,
            tags: Vec::new(),
            retries: Retries::default(),
            retry_at: None,
            last_end: None,
            submitted: now_ms,
            created: None,
            launched: None,
            completed: None,
            vc: vc.parse().map_err(|e| Error::Invalid(format!("{e}")))?,
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
        warnings: Vec::new(),
    })
}

fn not_an_object() -> Error {
    Error::InvalidJob(vec![Problem {
        path: String::new(),
        message: "should be object".to_owned(),
        keyword: Some("type".to_owned()),
        schema_path: Some("#/type".into()),
        advice: Advice::AsIs,
        params: Some(r#"{"type":"object"}"#.into()),
    }])
}

fn part_of(log: &Bytes, range: LogRange) -> LogPart {
    let size = log.len() as u64;
    let (start, end) = match range {
        LogRange::All => (0, size),
        LogRange::Tail(bytes) => (size.saturating_sub(bytes), size),
        LogRange::Bytes { start, end } => {
            let end = end.map_or(size, |end| end.saturating_add(1).min(size));
            (start.min(size), end.max(start.min(size)))
        }
    };
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let bytes = log.slice(index(start)..index(end));
    LogPart {
        start,
        size,
        length: Some(end - start),
        body: Box::pin(stream::iter([Ok(bytes)])),
    }
}

#[async_trait]
impl Cluster for Fake {
    async fn login(&self, user: &str, password: &str, _: Trust) -> Result<Login, Error> {
        let (right, view) = {
            let state = self.state();
            if state.is_crowded {
                return Err(Error::LoginsBusy);
            }
            let found = state.users.get(user).cloned();
            found.ok_or_else(|| Error::NoUser(user.to_owned()))?
        };
        if right != password {
            return Err(Error::WrongPassword);
        }
        let token = format!("token-of-{user}");
        let caller = Caller {
            user: view.name.clone(),
            admin: view.admin,
            application: false,
        };
        self.add_token(&token, caller);
        Ok(Login {
            user: view.name,
            token,
            admin: view.admin,
        })
    }

    async fn nodes(&self) -> Result<Vec<KnownNode>, Error> {
        if self.state().away.iter().any(|vc| vc.as_str() == DEFAULT_VC) {
            return Err(Error::Unavailable("no leader answers".to_owned()));
        }
        let NodeView {
            id, capacity, free, ..
        } = self.node().await?;
        let mut nodes = self.state().others.clone();
        nodes.push(KnownNode {
            id,
            has: Some(Has::of(&capacity, &free, 0)),
            closed: Vec::new(),
        });
        Ok(nodes)
    }

    async fn virtual_clusters(&self) -> Result<Vec<VcView>, Error> {
        let name = DEFAULT_VC.parse();
        let mut vc = VcView::new(name.map_err(|e| Error::Unavailable(format!("{e}")))?);
        vc.age = self.dated(&vc.name, ()).age;
        let node = self.node().await?;
        let share = Share::of(&node.capacity, &node.free);
        vc.total = share.total;
        vc.guaranteed = share.healthy;
        vc.used = share.used();
        Ok(vec![vc])
    }

    async fn what_if(&self, text: &str) -> Result<WhatIf, Error> {
        let spec = ClusterSpec::from_hived_yaml(text);
        let lines = |problems: Vec<SpecProblem>| problems.iter().map(ToString::to_string).collect();
        let spec = spec.map_err(|problems| Error::InvalidDocument(lines(problems)))?;
        Ok(WhatIf {
            absent: spec.cells.into_iter().map(|cell| cell.address).collect(),
            ..WhatIf::default()
        })
    }

    async fn check_token(&self, token: &str) -> Result<TokenInfo, Error> {
        let caller = self.state().tokens.get(token).cloned();
        let caller = caller.ok_or(Error::InvalidToken)?;
        Ok(TokenInfo {
            issued: ISSUED_S,
            expires: (!caller.application).then_some(ISSUED_S + LIFE_S),
            caller,
        })
    }

    async fn tokens(&self, caller: &Caller) -> Result<Vec<String>, Error> {
        let state = self.state();
        let own = state.tokens.iter().filter(|(_, of)| of.user == caller.user);
        Ok(own.map(|(token, _)| token.clone()).collect())
    }

    async fn issue_application_token(&self, caller: &Caller) -> Result<String, Error> {
        let token = format!("application-of-{}", caller.user);
        let caller = Caller {
            application: true,
            ..caller.clone()
        };
        self.add_token(&token, caller);
        Ok(token)
    }

    async fn revoke_token(&self, caller: &Caller, token: &str) -> Result<(), Error> {
        let mut state = self.state();
        match state.tokens.get(token) {
            None => Err(Error::Invalid("this is no token".to_owned())),
            Some(of) if of.user != caller.user => {
                Err(Error::Forbidden("this token is not yours".to_owned()))
            }
            Some(_) => {
                state.tokens.remove(token);
                Ok(())
            }
        }
    }

    async fn users(&self) -> Result<Vec<UserView>, Error> {
        let state = self.state();
        Ok(state.users.values().map(|(_, user)| user.clone()).collect())
    }

    async fn user(&self, name: &str) -> Result<UserView, Error> {
        let user = self.state().users.get(name).map(|(_, user)| user.clone());
        user.ok_or_else(|| Error::NoUser(name.to_owned()))
    }

    async fn submit(&self, caller: &Caller, yaml: &str) -> Result<Submitted, Error> {
        let name = yaml.lines().find_map(|line| line.strip_prefix("name: "));
        let name = name.ok_or_else(not_an_object)?;
        let key = JobKey {
            user: caller.user.clone(),
            name: name.parse().map_err(|e| Error::Invalid(format!("{e}")))?,
        };
        if self.state().jobs.contains_key(&key) {
            return Err(Error::JobExists(key.to_string()));
        }
        let warnings: Vec<Remark> = yaml
            .lines()
            .filter_map(|line| Some(Remark::at("", line.strip_prefix(WARNING)?)))
            .collect();
        let mut job = new_job(key.clone(), ISSUED_S * 1000)?;
        job.warnings.clone_from(&warnings);
        self.put(job);
        Ok(Submitted { key, warnings })
    }

    async fn jobs(&self, query: &JobQuery) -> Result<Listed, Error> {
        let state = self.state();
        let jobs = state.jobs.values().map(|job| job.summary.clone());
        let (jobs, total) = query.take(jobs);
        Ok(Listed {
            jobs,
            total,
            away: state.away.clone(),
            aged: state.aged.clone(),
        })
    }

    async fn job(&self, key: &JobKey, attempt: Option<u32>) -> Result<Dated<JobDetail>, Error> {
        let job = self.state().jobs.get(key).cloned();
        let job = job.ok_or_else(|| Error::NoJob(key.to_string()))?;
        match attempt {
            Some(id) if job.attempt.as_ref().is_none_or(|one| one.id != id) => {
                Err(Error::NoAttempt {
                    job: key.to_string(),
                    attempt: id,
                })
            }
            _ => Ok(self.dated(&job.summary.vc.clone(), job)),
        }
    }

    async fn explanation(&self, key: &JobKey) -> Result<Explanation, Error> {
        let summary = self.job(key, None).await?.value.summary;
        Ok(Explanation {
            key: key.clone(),
            state: summary.state(),
            waiting: u32::from(summary.waiting_for.is_some()),
            reason: summary.waiting_for,
            last_end: summary.last_end,
            gpus_idle: summary.gpus_idle,
            gangs: Vec::new(),
            launches: Vec::new(),
        })
    }

    async fn job_config(&self, key: &JobKey) -> Result<Dated<serde_json::Value>, Error> {
        let age = self.job(key, None).await?.age;
        let value = serde_json::json!({
            "protocolVersion": 2, "name": key.name, "type": "job", "secrets": "******",
        });
        Ok(Dated { value, age })
    }

    async fn set_execution_type(
        &self,
        _: &Caller,
        key: &JobKey,
        value: ExecutionType,
    ) -> Result<(), Error> {
        self.edit(key, |job| {
            job.summary.execution_type = value;
            Ok(())
        })
    }

    async fn add_tag(&self, _: &Caller, key: &JobKey, tag: &str) -> Result<(), Error> {
        self.edit(key, |job| {
            let tags = &mut job.summary.tags;
            if !tags.iter().any(|one| one == tag) {
                tags.push(tag.to_owned());
            }
            Ok(())
        })
    }

    async fn remove_tag(&self, _: &Caller, key: &JobKey, tag: &str) -> Result<(), Error> {
        self.edit(key, |job| {
            let tags = &mut job.summary.tags;
            let found = tags.iter().position(|one| one == tag);
            tags.remove(found.ok_or_else(|| Error::NoTag(tag.to_owned()))?);
            Ok(())
        })
    }

    async fn events(&self, key: &JobKey) -> Result<Dated<Vec<Event>>, Error> {
        let age = self.job(key, None).await?.age;
        let value = self.state().events.get(key).cloned().unwrap_or_default();
        Ok(Dated { value, age })
    }

    async fn task(
        &self,
        key: &JobKey,
        attempt: u32,
        task: &TaskId,
    ) -> Result<Dated<TaskView>, Error> {
        let Dated { value: job, age } = self.job(key, Some(attempt)).await?;
        let mut tasks = job.roles.into_iter().flat_map(|role| role.tasks);
        let value = tasks.find(|one| one.id == *task);
        let value = value.ok_or_else(|| Error::NoTask {
            job: key.to_string(),
            task: task.to_string(),
        })?;
        Ok(Dated { value, age })
    }

    async fn log_files(&self, uid: &AttemptUid) -> Result<Vec<LogFile>, Error> {
        let state = self.state();
        if state.is_without_logs {
            return Err(Error::NoLog);
        }
        let own = state.logs.iter().filter(|((of, _), _)| of == uid);
        Ok(own
            .map(|((_, name), text)| LogFile {
                name: name.clone(),
                size: text.len() as u64,
            })
            .collect())
    }

    async fn read_log(
        &self,
        uid: &AttemptUid,
        name: &str,
        wish: LogWish,
    ) -> Result<LogPart, Error> {
        let LogWish { range, follow, .. } = wish;
        let log = {
            let state = self.state();
            let log = state.logs.get(&(uid.clone(), name.to_owned())).cloned();
            log.ok_or(Error::NoLog)?
        };
        let part = part_of(&log, range);
        if !follow {
            return Ok(part);
        }
        // Followed, a fake log ends with a second part.
        let more = stream::iter([Ok(Bytes::from_static(b"more\n"))]);
        Ok(LogPart {
            length: None,
            body: Box::pin(part.body.chain(more)),
            ..part
        })
    }

    async fn node(&self) -> Result<NodeView, Error> {
        let node = self.state().node.clone();
        node.ok_or_else(|| Error::Unavailable("the fake has no node".to_owned()))
    }

    async fn images(&self) -> Result<Vec<ImageView>, Error> {
        Ok(self.state().images.values().cloned().collect())
    }

    async fn import_image(
        &self,
        name: Option<String>,
        mut archive: ByteStream,
    ) -> Result<ProgressStream, Error> {
        let mut size_bytes = 0;
        while let Some(part) = archive.next().await {
            match part {
                Ok(part) => size_bytes += part.len() as u64,
                Err(e) => return Err(Error::Invalid(format!("the archive broke off: {e}"))),
            }
        }
        let image = ImageView {
            name: name.unwrap_or_else(|| "archive:latest".to_owned()),
            digest: "sha256:0".to_owned(),
            size_bytes,
        };
        self.state()
            .images
            .insert(image.name.clone(), image.clone());
        Ok(Box::pin(stream::iter([
            ImageProgress::Bytes {
                done: size_bytes,
                total: None,
            },
            ImageProgress::Ready(image),
        ])))
    }

    async fn pull_image(&self, name: &str) -> Result<ProgressStream, Error> {
        let message = format!("the fake has no registry for {name}");
        Ok(Box::pin(stream::iter([ImageProgress::Failed { message }])))
    }

    async fn remove_image(&self, name: &str) -> Result<(), Error> {
        let removed = self.state().images.remove(name);
        removed
            .map(drop)
            .ok_or_else(|| Error::NoImage(name.to_owned()))
    }
}
