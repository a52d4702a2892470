//! Carries out the ledger's steps: images, secrets and devices for a task, then its runner; and
//! turns what runners tell into the ledger's observations.

mod launch;
mod news;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_control::ledger::{Observation, Step};
use muster_exec::engine::Engine;
use muster_exec::task::{Adoption, Config, Handle, TaskRunner, task_dir};
use muster_model::exit::{Cause, RawExit};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskSpec;
use tokio::sync::{mpsc, watch};

use crate::accounts::Accounts;
use crate::causes::causes;
use crate::config::Tasks;
use crate::images::Images;
use crate::loops::hardware::HardwareState;
use crate::loops::node::NodeHandle;
use crate::rules_in_force::RulesInForce;

/// Events of all runners that may wait for the ledger.
const EVENTS_MAX: usize = 1024;
/// Pause before an engine that does not answer is asked again.
const ENGINE_PAUSE: Duration = Duration::from_millis(500);

/// What an executor is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) images: Arc<Images>,
    pub(crate) rules: RulesInForce,
    pub(crate) accounts: Accounts,
    pub(crate) node: NodeHandle,
    pub(crate) hardware: HardwareState,
    pub(crate) init: PathBuf,
    pub(crate) tasks: PathBuf,
    pub(crate) limits: Tasks,
}

/// The executor of this node.
#[derive(Debug)]
pub(crate) struct Executor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    engine: Arc<dyn Engine>,
    images: Arc<Images>,
    accounts: Accounts,
    rules: RulesInForce,
    node: NodeHandle,
    hardware: HardwareState,
    limits: Tasks,
    runner: TaskRunner,
    config: Config,
    tasks: Mutex<BTreeMap<AttemptUid, Task>>,
}

/// A task that the executor works on.
#[derive(Debug)]
enum Task {
    /// Its image or its container's fate is looked for; carries a stop that came meanwhile.
    Preparing(watch::Sender<Option<Stop>>),
    /// A runner has it.
    Running(Handle),
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    cause: Cause,
    grace: Duration,
}

impl Executor {
    pub(crate) fn new(parts: Parts) -> Self {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let config = Config {
            log_file_bytes_max: parts.limits.log_bytes,
            ..Config::new(parts.tasks, parts.init)
        };
        let shared = Arc::new(Shared {
            runner: TaskRunner::new(parts.engine.clone(), config.clone(), events),
            engine: parts.engine,
            images: parts.images,
            accounts: parts.accounts,
            rules: parts.rules,
            node: parts.node,
            hardware: parts.hardware,
            limits: parts.limits,
            config,
            tasks: Mutex::default(),
        });
        tokio::spawn(news::run(Arc::clone(&shared), received));
        Self { shared }
    }

    /// Begins a step. Never waits: what takes time goes on beside the node's loop, which hears
    /// of it as an observation.
    pub(crate) fn perform(&self, step: Step) {
        match step {
            Step::Create(spec) => self.create(*spec),
            Step::Adopt(uid) => self.adopt(uid),
            Step::Go(uid) => {
                if let Some(Task::Running(handle)) = self.shared.lock().get(&uid) {
                    handle.go();
                }
            }
            Step::Stop {
                uid,
                cause,
                grace_ms,
            } => self.stop(uid, cause, grace_ms),
            Step::Remove(uid) => self.remove(uid),
        }
    }

    /// A task that is being worked on already is left to that.
    fn create(&self, spec: TaskSpec) {
        let uid = spec.placement.uid.clone();
        let Some(stopped) = self.prepare(&uid) else {
            return;
        };
        tokio::spawn(launch::run(Arc::clone(&self.shared), spec, stopped));
    }

    fn adopt(&self, uid: AttemptUid) {
        let Some(stopped) = self.prepare(&uid) else {
            return;
        };
        tokio::spawn(adopt(Arc::clone(&self.shared), uid, stopped));
    }

    fn prepare(&self, uid: &AttemptUid) -> Option<watch::Receiver<Option<Stop>>> {
        let mut tasks = self.shared.lock();
        if tasks.contains_key(uid) {
            return None;
        }
        let (stop, stopped) = watch::channel(None);
        tasks.insert(uid.clone(), Task::Preparing(stop));
        Some(stopped)
    }

    fn stop(&self, uid: AttemptUid, cause: Cause, grace_ms: u64) {
        let stop = Stop {
            cause,
            grace: Duration::from_millis(grace_ms),
        };
        match self.shared.lock().get(&uid) {
            Some(Task::Running(handle)) => handle.stop(stop.cause, stop.grace),
            Some(Task::Preparing(sender)) => {
                sender.send_replace(Some(stop));
            }
            None => self.remove(uid),
        }
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptUid, Task>> {
        // Each change is one insertion or removal, so a panic elsewhere left no half of one.
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a prepared task to its runner, with a stop that came meanwhile.
    fn running(&self, handle: Handle, stopped: &watch::Receiver<Option<Stop>>) {
        let mut tasks = self.lock();
        if let Some(stop) = *stopped.borrow() {
            handle.stop(stop.cause, stop.grace);
        }
        tasks.insert(handle.uid().clone(), Task::Running(handle));
    }

    /// A task that never got a runner has ended.
    async fn not_launched(&self, uid: AttemptUid, exit: RawExit) {
        self.lock().remove(&uid);
        let verdict = Box::new(news::judge_launch(&self.rules.now().set, exit));
        self.node
            .observed(uid.clone(), Observation::LaunchFailed(verdict))
            .await;
        self.node.observed(uid, Observation::Gone).await;
    }
}

/// Takes a task over from an earlier life of the agent, if anything is left of it.
async fn adopt(shared: Arc<Shared>, uid: AttemptUid, stopped: watch::Receiver<Option<Stop>>) {
    let left = loop {
        match shared.engine.list().await {
            Ok(all) => break all.iter().any(|container| container.uid == uid),
            Err(error) => {
                tracing::warn!(%uid, error = causes(&error), "cannot look for a task yet");
                tokio::time::sleep(ENGINE_PAUSE).await;
            }
        }
    };
    if left || task_dir(&shared.config, &uid).exit_report().exists() {
        let adoption = Adoption {
            uid,
            disk_mb: shared.limits.disk_mb,
            setup: None,
        };
        let handle = shared.runner.adopt(adoption);
        shared.running(handle, &stopped);
    } else {
        shared.lock().remove(&uid);
        shared.node.observed(uid, Observation::Absent).await;
    }
}
