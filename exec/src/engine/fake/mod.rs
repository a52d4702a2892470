//! An engine without containers: it runs each command as a plain child process of this one.
//!
//! For tests of what stands above the engine. Nothing is isolated or limited; labels, exit
//! codes, signals, the logger and removal behave as the real engine's do. A path of the
//! command or of a variable's value below a mount's target is replaced by the host's path,
//! so that what the container would find through a mount is found here too. All processes
//! end when the engine is dropped.

mod child;
mod exec;
mod proc;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use tokio::sync::watch;

use super::{
    ContainerInfo, ContainerSpec, ContainerStatus, Engine, EngineError, EngineExit, ExecSpec,
    StartedExec, Usage,
};

/// Sent by `remove`.
const SIGKILL: i32 = 9;

/// The fake engine.
#[derive(Debug)]
pub struct FakeEngine {
    dir: PathBuf,
    state: Mutex<FakeEngineState>,
    /// Whether calls wait for ever.
    stuck: watch::Sender<bool>,
    /// Held while a container starts, so that two calls do not start it twice.
    starting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct FakeEngineState {
    silent: bool,
    asked: u64,
    images: BTreeSet<String>,
    containers: BTreeMap<AttemptUid, FakeContainer>,
}

#[derive(Clone, Debug)]
struct FakeContainer {
    spec: ContainerSpec,
    /// Its working directory, standing for the writable layer.
    dir: PathBuf,
    /// Once started.
    pid: Option<u32>,
    exit: watch::Sender<Option<EngineExit>>,
}

impl FakeEngine {
    /// An engine that knows `images` and keeps its containers' directories below `dir`.
    pub fn new<I>(dir: PathBuf, images: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let state = FakeEngineState {
            images: images.into_iter().map(Into::into).collect(),
            ..FakeEngineState::default()
        };
        Self {
            dir,
            state: Mutex::new(state),
            stuck: watch::Sender::new(false),
            starting: tokio::sync::Mutex::default(),
        }
    }

    /// Makes every call fail as if the engine did not answer, or lets it answer again.
    /// Processes run on.
    pub fn set_silent(&self, silent: bool) {
        self.lock().silent = silent;
    }

    /// Makes every call wait as if the engine hung, or lets all go on.
    pub fn set_stuck(&self, stuck: bool) {
        self.stuck.send_replace(stuck);
    }

    /// How often it was called.
    pub fn asked(&self) -> u64 {
        self.lock().asked
    }

    /// Makes an image known.
    pub fn add_image(&self, name: &str) {
        self.lock().images.insert(name.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, FakeEngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, once the engine goes on, unless it is silent.
    async fn answering(&self) -> Result<MutexGuard<'_, FakeEngineState>, EngineError> {
        self.lock().asked += 1;
        // The sender is this engine's own: it cannot be gone.
        let _ = self.stuck.subscribe().wait_for(|stuck| !stuck).await;
        let state = self.lock();
        if state.silent {
            return Err(EngineError::Unavailable {
                socket: "fake".to_owned(),
                reason: "it was told to be silent".to_owned(),
            });
        }
        Ok(state)
    }

    async fn entry(&self, uid: &AttemptUid) -> Result<FakeContainer, EngineError> {
        let state = self.answering().await?;
        let entry = state.containers.get(uid).cloned();
        entry.ok_or_else(|| EngineError::NoContainer(uid.clone()))
    }
}

#[async_trait]
impl Engine for FakeEngine {
    async fn version(&self) -> Result<String, EngineError> {
        self.answering().await.map(|_| "fake 1".to_owned())
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<(), EngineError> {
        let dir = self.dir.join(spec.uid.as_str());
        let mut state = self.answering().await?;
        if state.containers.contains_key(&spec.uid) {
            return Ok(());
        }
        if !state.images.contains(&spec.image) {
            return Err(EngineError::NoImage(spec.image.clone()));
        }
        let files = spec.devices.iter().filter(|it| it.cdi_names.is_empty());
        if let Some(missing) = files.flat_map(|it| &it.paths).find(|path| !path.exists()) {
            return Err(EngineError::NoDevice(missing.display().to_string()));
        }
        std::fs::create_dir_all(&dir).map_err(|error| EngineError::Unfit {
            call: "make the writable layer",
            reason: error.to_string(),
        })?;
        let entry = FakeContainer {
            spec: spec.clone(),
            dir,
            pid: None,
            exit: watch::Sender::new(None),
        };
        state.containers.insert(spec.uid.clone(), entry);
        Ok(())
    }

    async fn start(&self, uid: &AttemptUid) -> Result<u32, EngineError> {
        let _starting = self.starting.lock().await;
        let entry = self.entry(uid).await?;
        if let Some(pid) = entry.pid {
            return Ok(pid);
        }
        let pid = child::spawn(&entry.spec, &entry.dir, entry.exit.clone())
            .await
            .map_err(|error| refused("start the container", &error))?;
        if let Some(entry) = self.lock().containers.get_mut(uid) {
            entry.pid = Some(pid);
        }
        Ok(pid)
    }

    async fn wait(&self, uid: &AttemptUid) -> Result<EngineExit, EngineError> {
        let mut exit = self.entry(uid).await?.exit.subscribe();
        let ended = exit
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|exit| *exit);
        ended.ok_or_else(|| EngineError::NoContainer(uid.clone()))
    }

    async fn signal(&self, uid: &AttemptUid, signal: i32) -> Result<(), EngineError> {
        let entry = self.entry(uid).await?;
        match entry.pid {
            Some(pid) if entry.exit.borrow().is_none() => {
                child::signal(pid, signal).map_err(|errno| refused("signal the container", &errno))
            }
            Some(_) => Ok(()),
            // Not started: the real one's stub process dies of it.
            None => {
                entry.exit.send_replace(Some(child::killed_by(signal)));
                Ok(())
            }
        }
    }

    async fn remove(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        let entry = match self.entry(uid).await {
            Ok(entry) => entry,
            Err(EngineError::NoContainer(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(pid) = entry.pid {
            child::end_group(pid).await;
        } else {
            entry.exit.send_replace(Some(child::killed_by(SIGKILL)));
        }
        // Gone already is as good.
        let _ = std::fs::remove_dir_all(&entry.dir);
        self.lock().containers.remove(uid);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<ContainerInfo>, EngineError> {
        let state = self.answering().await?;
        let container = |(uid, entry): (&AttemptUid, &FakeContainer)| ContainerInfo {
            uid: uid.clone(),
            labels: entry.spec.labels.clone(),
            status: entry.status(),
        };
        Ok(state.containers.iter().map(container).collect())
    }

    async fn usage(&self, uid: &AttemptUid) -> Result<Usage, EngineError> {
        Ok(self
            .entry(uid)
            .await?
            .pid
            .map(proc::usage)
            .unwrap_or_default())
    }

    async fn process_ids(&self, uid: &AttemptUid) -> Result<Vec<u32>, EngineError> {
        let group = self.entry(uid).await?.pid;
        Ok(group.map(proc::members).unwrap_or_default())
    }

    async fn writable_bytes(&self, uid: &AttemptUid) -> Result<u64, EngineError> {
        Ok(proc::tree_bytes(&self.entry(uid).await?.dir))
    }

    async fn exec(&self, uid: &AttemptUid, spec: &ExecSpec) -> Result<StartedExec, EngineError> {
        let entry = self.entry(uid).await?;
        match entry.status() {
            ContainerStatus::Running { .. } => exec::start(&entry, spec),
            _ => Err(EngineError::Refused {
                call: "run a command in the container",
                reason: "it does not run".to_owned(),
            }),
        }
    }

    async fn end_exec(&self, uid: &AttemptUid, _: &str) -> Result<(), EngineError> {
        // Its commands have ended with the engine that started them.
        self.entry(uid).await.map(drop)
    }
}

impl FakeContainer {
    fn status(&self) -> ContainerStatus {
        match (*self.exit.borrow(), self.pid) {
            (Some(exit), _) => ContainerStatus::Stopped(exit),
            (None, Some(pid)) => ContainerStatus::Running { pid },
            (None, None) => ContainerStatus::Created,
        }
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        for pid in self
            .lock()
            .containers
            .values()
            .filter_map(|entry| entry.pid)
        {
            // A group that ended already cannot be signalled.
            let _ = child::signal_group(pid, SIGKILL);
        }
    }
}

fn refused(call: &'static str, error: &dyn std::error::Error) -> EngineError {
    EngineError::Refused {
        call,
        reason: error.to_string(),
    }
}
