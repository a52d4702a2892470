//! Carries out the ledger's steps: images, secrets and devices for a task, then its runner; and
//! turns what runners tell into the ledger's observations.

mod collectives;
mod launch;
mod news;
mod sealed_secrets;
mod share;
mod ssh;
mod storages;
mod uses;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_control::lease;
use muster_control::ledger::{ExecutorStep, Observation};
use muster_exec::engine::Engine;
use muster_exec::storage::files::{FileLimits, StorageFileAccess};
use muster_exec::storage::{StorageMounts, StorageTimes};
use muster_exec::task::{Adoption, Handle, RunnerConfig, TaskRunner, task_dir};
use muster_model::exit::{Cause, RawExit, Verdict};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskSpec;
use tokio::sync::{OnceCell, mpsc, watch};

pub(crate) use self::sealed_secrets::SealedSecrets;
pub(crate) use self::share::PIDS_SHARE;
use crate::accounts::Accounts;
use crate::causes::causes;
use crate::cluster::LocalUses;
use crate::config::Tasks;
use crate::documents::failure_rules::RulesInForce;
use crate::documents::policy::PolicyInForce;
use crate::documents::storages::StoragesInForce;
use crate::failures::FailureNotes;
use crate::health::NodeHealth;
use crate::images::NodeImages;
use crate::loops::hardware::HardwareState;
use crate::loops::node::NodeHandle;
use crate::sessions::TaskSessions;

/// Events of all runners that may wait for the ledger.
const EVENTS_MAX: usize = 1024;
/// Between the polite and the hard signal at a lease's end.
const LEASE_GRACE: Duration = Duration::from_millis(lease::GRACE_MS);
/// Between the polite and the hard signal for a device that has vanished.
const DEVICE_GRACE: Duration = Duration::from_secs(10);
/// Pause before an engine that does not answer is asked again.
const ENGINE_PAUSE: Duration = Duration::from_millis(500);

/// What an executor is made of.
#[derive(Debug)]
pub(crate) struct ExecutorDependencies {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) images: Arc<NodeImages>,
    pub(crate) rules: RulesInForce,
    pub(crate) accounts: Accounts,
    pub(crate) node: NodeHandle,
    pub(crate) hardware: HardwareState,
    pub(crate) health: NodeHealth,
    pub(crate) init: PathBuf,
    pub(crate) tasks: PathBuf,
    pub(crate) limits: Tasks,
    pub(crate) policy: PolicyInForce,
    /// What the machine calls itself, which its containers do too.
    pub(crate) host_name: String,
    /// What its tasks use.
    pub(crate) uses: LocalUses,
    /// Keeps failures.
    pub(crate) failures: FailureNotes,
    /// The storages that the cluster declares.
    pub(crate) storages: StoragesInForce,
    /// Sessions in its tasks.
    pub(crate) sessions: TaskSessions,
}

/// The executor of this node.
#[derive(Debug)]
pub(crate) struct Executor {
    shared: Arc<ExecutorShared>,
}

#[derive(Debug)]
struct ExecutorShared {
    engine: Arc<dyn Engine>,
    images: Arc<NodeImages>,
    accounts: Accounts,
    rules: RulesInForce,
    node: NodeHandle,
    hardware: HardwareState,
    health: NodeHealth,
    limits: Tasks,
    policy: PolicyInForce,
    host_name: String,
    /// Tells this agent's containers from those of another one on the same machine.
    name: String,
    uses: LocalUses,
    failures: FailureNotes,
    storages_declared: StoragesInForce,
    /// Those that are mounted here.
    storages: Arc<StorageMounts>,
    sessions: TaskSessions,
    runner: TaskRunner,
    config: RunnerConfig,
    tasks: Mutex<BTreeMap<AttemptUid, ExecutorTask>>,
    /// The verdicts of tasks whose containers are kept.
    held: Mutex<BTreeMap<AttemptUid, Verdict>>,
    /// The disk with the containers' layers, once the engine has said.
    disk: OnceCell<PathBuf>,
}

/// A task that the executor works on.
#[derive(Debug)]
enum ExecutorTask {
    /// Its image or its container's fate is looked for; carries what came meanwhile.
    Preparing(watch::Sender<Meanwhile>),
    /// A runner has it.
    Running(Handle),
}

/// What was wanted of a task before its runner had it.
#[derive(Clone, Debug, Default)]
struct Meanwhile {
    stop: Option<StopRequest>,
    /// Until when its lease lets it run, since boot.
    lease: Option<Duration>,
}

#[derive(Clone, Debug)]
struct StopRequest {
    cause: Cause,
    /// Why, where the cause does not say it all.
    message: Arc<str>,
    grace: Duration,
}

impl Executor {
    pub(crate) fn new(parts: ExecutorDependencies) -> Self {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let config = RunnerConfig {
            log_file_bytes_max: parts.limits.log_bytes,
            ..RunnerConfig::new(parts.tasks, parts.init)
        };
        let shared = Arc::new(ExecutorShared {
            runner: TaskRunner::new(parts.engine.clone(), config.clone(), events),
            engine: parts.engine,
            images: parts.images,
            accounts: parts.accounts,
            rules: parts.rules,
            node: parts.node,
            hardware: parts.hardware,
            health: parts.health,
            limits: parts.limits,
            policy: parts.policy,
            host_name: parts.host_name,
            uses: parts.uses,
            failures: parts.failures,
            storages_declared: parts.storages,
            sessions: parts.sessions,
            storages: Arc::new(StorageMounts::new(
                config.storage_steps.clone(),
                &config.storages_dir,
                StorageTimes::default(),
            )),
            name: config.tasks_dir.display().to_string(),
            config,
            tasks: Mutex::default(),
            held: Mutex::default(),
            disk: OnceCell::new(),
        });
        tokio::spawn(news::run(Arc::clone(&shared), received));
        tokio::spawn(uses::run(Arc::clone(&shared)));
        tokio::spawn(storages::run(Arc::clone(&shared)));
        Self { shared }
    }

    /// Files of storages, by the mounts that its tasks use.
    pub(crate) fn storage_files(&self) -> StorageFileAccess {
        StorageFileAccess::new(
            self.shared.config.storage_steps.clone(),
            Arc::clone(&self.shared.storages),
            FileLimits::default(),
        )
    }

    /// What ends tasks whose device has vanished.
    pub(crate) fn stopper(&self) -> TaskStopper {
        TaskStopper(Arc::clone(&self.shared))
    }

    /// Looks which containers there are, and tells the node. Never waits.
    pub(crate) fn look_around(&self) {
        tokio::spawn(look_around(Arc::clone(&self.shared)));
    }

    /// Begins a step. Never waits: what takes time goes on beside the node's loop, which hears
    /// of it as an observation.
    pub(crate) fn perform(&self, step: ExecutorStep) {
        match step {
            ExecutorStep::Create(spec) => self.create(*spec, None),
            ExecutorStep::Adopt(uid) => self.adopt(uid),
            ExecutorStep::Go(uid) => {
                if let Some(ExecutorTask::Running(handle)) = self.shared.lock().get(&uid) {
                    handle.go();
                }
            }
            ExecutorStep::Stop {
                uid,
                cause,
                grace_ms,
            } => self.stop(uid, cause, grace_ms),
            ExecutorStep::Remove(uid) => self.remove(uid),
        }
    }

    /// Brings a task to Ready that holds by a run lease until `ends`, a time since boot, if one is
    /// given. One that is being worked on already is left to that.
    pub(crate) fn create(&self, spec: TaskSpec, ends: Option<Duration>) {
        let uid = spec.placement.uid.clone();
        let Some(came) = self.prepare(&uid) else {
            return;
        };
        if let Some(ends) = ends {
            self.renew(&uid, ends);
        }
        tokio::spawn(launch::run(Arc::clone(&self.shared), spec, came));
    }

    fn adopt(&self, uid: AttemptUid) {
        let Some(came) = self.prepare(&uid) else {
            return;
        };
        tokio::spawn(adopt(Arc::clone(&self.shared), uid, came));
    }

    fn prepare(&self, uid: &AttemptUid) -> Option<watch::Receiver<Meanwhile>> {
        let mut tasks = self.shared.lock();
        if tasks.contains_key(uid) {
            return None;
        }
        let (meanwhile, came) = watch::channel(Meanwhile::default());
        tasks.insert(uid.clone(), ExecutorTask::Preparing(meanwhile));
        Some(came)
    }

    fn stop(&self, uid: AttemptUid, cause: Cause, grace_ms: u64) {
        let stop = StopRequest {
            cause,
            message: "".into(),
            grace: Duration::from_millis(grace_ms),
        };
        if !self.shared.stop(&uid, stop) {
            self.remove(uid);
        }
    }

    /// Lets a task run on until `ends`, a time since boot.
    pub(crate) fn renew(&self, uid: &AttemptUid, ends: Duration) {
        match self.shared.lock().get(uid) {
            Some(ExecutorTask::Running(handle)) => handle.renew(ends, LEASE_GRACE),
            Some(ExecutorTask::Preparing(sender)) => {
                sender.send_modify(|meanwhile| meanwhile.lease = Some(ends));
            }
            // It has ended meanwhile.
            None => {}
        }
    }

    /// Ends a task whose lease nobody renewed.
    pub(crate) fn end_lease(&self, uid: AttemptUid) {
        self.stop(uid, Cause::LeaseEnded, lease::GRACE_MS);
    }

    /// A runner removes its container itself; this is for what no runner has.
    fn remove(&self, uid: AttemptUid) {
        if self.shared.lock().contains_key(&uid) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            while let Err(error) = shared.engine.remove(&uid).await {
                tracing::warn!(%uid, error = causes(&error), "cannot remove a container yet");
                tokio::time::sleep(ENGINE_PAUSE).await;
            }
            shared.node.observed(uid, Observation::Gone).await;
        });
    }
}

/// Ends tasks whose device has vanished: their programs may wait for it for ever.
#[derive(Clone, Debug)]
pub(crate) struct TaskStopper(Arc<ExecutorShared>);

impl TaskStopper {
    /// Has a task end. May be said again.
    pub(crate) fn device_lost(&self, uid: &AttemptUid) {
        let stop = StopRequest {
            cause: Cause::DeviceLost,
            message: "".into(),
            grace: DEVICE_GRACE,
        };
        self.0.stop(uid, stop);
    }
}

impl ExecutorShared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptUid, ExecutorTask>> {
        // Each change is one insertion or removal, so a panic elsewhere left no half of one.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The verdicts of tasks whose containers are kept.
    fn held(&self) -> MutexGuard<'_, BTreeMap<AttemptUid, Verdict>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a task end, if it is worked on here. Whether it is.
    fn stop(&self, uid: &AttemptUid, stop: StopRequest) -> bool {
        let tasks = self.lock();
        match tasks.get(uid) {
            Some(ExecutorTask::Running(handle)) => {
                handle.stop_because(stop.cause, &stop.message, stop.grace);
            }
            Some(ExecutorTask::Preparing(sender)) => {
                sender.send_modify(|meanwhile| meanwhile.stop = Some(stop));
            }
            None => return false,
        }
        true
    }

    /// Hands a prepared task to its runner, with what came meanwhile.
    fn running(&self, handle: Handle, came: &watch::Receiver<Meanwhile>) {
        let mut tasks = self.lock();
        let Meanwhile { stop, lease } = came.borrow().clone();
        if let Some(ends) = lease {
            handle.renew(ends, LEASE_GRACE);
        }
        if let Some(stop) = stop {
            handle.stop_because(stop.cause, &stop.message, stop.grace);
        }
        tasks.insert(handle.uid().clone(), ExecutorTask::Running(handle));
    }

    /// A task that never got a runner has ended.
    async fn not_launched(&self, uid: AttemptUid, exit: RawExit) {
        self.lock().remove(&uid);
        let verdict = Box::new(news::judge_launch(&self.rules.now(), exit));
        self.node
            .observed(uid.clone(), Observation::LaunchFailed(verdict))
            .await;
        self.node.observed(uid, Observation::Gone).await;
    }
}

/// What an earlier life of the agent has left, as soon as the engine says.
async fn look_around(shared: Arc<ExecutorShared>) {
    let all = loop {
        match shared.engine.list().await {
            Ok(all) => break all,
            Err(error) => {
                tracing::warn!(
                    error = causes(&error),
                    "cannot see yet which containers are left; no task is taken before"
                );
                tokio::time::sleep(ENGINE_PAUSE).await;
            }
        }
    };
    let ours = all
        .into_iter()
        .filter(|container| container.labels.get(launch::AGENT) == Some(&shared.name));
    let found = ours.map(|container| container.uid).collect();
    shared.node.found(found).await;
}

/// Takes a task over from an earlier life of the agent, if anything is left of it.
async fn adopt(shared: Arc<ExecutorShared>, uid: AttemptUid, came: watch::Receiver<Meanwhile>) {
    let left = loop {
        match shared.engine.list().await {
            Ok(all) => break all.into_iter().find(|container| container.uid == uid),
            Err(error) => {
                tracing::warn!(%uid, error = causes(&error), "cannot look for a task yet");
                tokio::time::sleep(ENGINE_PAUSE).await;
            }
        }
    };
    if left.is_some() || task_dir(&shared.config, &uid).exit_report().exists() {
        if let Some(left) = &left {
            storages::adopt(&shared, &uid, &left.labels);
            shared.sessions.end_left(&uid).await;
        }
        let ordered_mb = left.as_ref().and_then(launch::ordered_disk_mb);
        let ordered_mb = ordered_mb.unwrap_or_else(|| shared.policy.now().tasks.disk_mb);
        let adoption = Adoption {
            uid,
            disk_mb: launch::disk_mb(&shared, ordered_mb).await,
            infiniband: left.as_ref().is_some_and(launch::has_infiniband),
            setup: None,
        };
        let handle = shared.runner.adopt(adoption);
        shared.running(handle, &came);
    } else {
        shared.lock().remove(&uid);
        shared.node.observed(uid, Observation::Absent).await;
    }
}
