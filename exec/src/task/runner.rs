//! The life of one task as sequential IO: how it begins.

use std::sync::Arc;
use std::time::Duration;

use muster_init::exit_report::TaskPhase;
use muster_init::message::TaskSetup;
use muster_init::task_dir::TaskDir;
use muster_model::exit::Cause;
use muster_model::id::AttemptUid;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::attend::ContainerEnd;
use super::dirs::{prepare, task_dir};
use super::end::StopCause;
use super::event::TaskEvent;
use super::handle::{Handle, WantedState};
use super::init_link::InitLink;
use super::order::{Adoption, RunnerConfig, TaskOrder};
use crate::engine::{self, ContainerStatus, Engine};
use crate::storage::AttachedPlace;

/// Runs tasks; each on a tokio task of its own.
#[derive(Clone, Debug)]
pub struct TaskRunner {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) config: Arc<RunnerConfig>,
    pub(super) events: mpsc::Sender<TaskEvent>,
}

impl TaskRunner {
    /// A runner of tasks on `engine` that tells of them through `events`.
    pub fn new(
        engine: Arc<dyn Engine>,
        config: RunnerConfig,
        events: mpsc::Sender<TaskEvent>,
    ) -> Self {
        Self {
            engine,
            config: Arc::new(config),
            events,
        }
    }

    /// Runs a new task. To repeat an order after a crash is safe: what is there is kept.
    pub fn spawn(&self, order: TaskOrder) -> Handle {
        let (handle, wanted) = Handle::new(order.uid.clone());
        let known = Adoption {
            uid: order.uid.clone(),
            disk_mb: order.limits.disk_mb,
            setup: Some(order.setup.clone()),
            infiniband: order.infiniband,
        };
        let life = TaskLife {
            hold: order.hold,
            ..self.life(known, wanted)
        };
        tokio::spawn(life.run(order));
        handle
    }

    /// Goes on with a task that an earlier process began.
    pub fn adopt(&self, adoption: Adoption) -> Handle {
        let (handle, wanted) = Handle::new(adoption.uid.clone());
        tokio::spawn(self.life(adoption, wanted).resume());
        handle
    }

    fn life(&self, known: Adoption, wanted: watch::Receiver<WantedState>) -> TaskLife {
        TaskLife {
            dir: task_dir(&self.config, &known.uid),
            uid: known.uid,
            runner: self.clone(),
            disk_mb: known.disk_mb,
            infiniband: known.infiniband,
            setup: known.setup,
            wanted,
            reached: TaskPhase::Setup,
            launched_ms: 0,
            told_ready: false,
            told_running: false,
            hold: None,
            stop: None,
        }
    }
}

/// One task from its creation to its removal.
#[derive(Debug)]
pub(super) struct TaskLife {
    pub(super) runner: TaskRunner,
    pub(super) uid: AttemptUid,
    pub(super) dir: TaskDir,
    pub(super) disk_mb: u64,
    pub(super) infiniband: bool,
    pub(super) setup: Option<TaskSetup>,
    pub(super) wanted: watch::Receiver<WantedState>,
    /// How far muster-init said it is.
    pub(super) reached: TaskPhase,
    pub(super) launched_ms: u64,
    pub(super) told_ready: bool,
    pub(super) told_running: bool,
    /// How long its container is kept if its commands fail. Unknown to a runner that has adopted the task:
    /// muster-init was told before.
    pub(super) hold: Option<Duration>,
    pub(super) stop: Option<StopCause>,
}

/// A launch that did not get as far as a container that runs.
#[derive(Debug)]
pub(super) struct NotLaunched {
    pub(super) cause: Cause,
    pub(super) message: String,
}

impl TaskLife {
    async fn run(mut self, order: TaskOrder) {
        match self.launch(&order).await {
            Ok((listener, pid)) => self.started(listener, pid).await,
            Err(failed) => self.not_launched(failed).await,
        }
        self.remove().await;
    }

    async fn resume(mut self) {
        let missing = |cause, message: &str| ContainerEnd::Missing(cause, message.to_owned());
        let end = match self.find().await {
            Some(ContainerStatus::Running { pid }) => {
                match InitLink::bind(&self.dir.ctl()) {
                    Ok(listener) => self.started(listener, pid).await,
                    Err(error) => self.unreachable(&error).await,
                }
                return self.remove().await;
            }
            Some(ContainerStatus::Stopped(exit)) => ContainerEnd::Exit(exit),
            Some(ContainerStatus::Created) => missing(Cause::Lost, "it was never started"),
            Some(ContainerStatus::NoProcess) => missing(
                Cause::NodeRestarted,
                "no process was left of it when the agent came back",
            ),
            None => missing(Cause::Lost, "it was gone when the agent came back"),
        };
        self.ended_meanwhile(end).await;
        self.remove().await;
    }

    /// Makes the directory, the container and its first process.
    async fn launch(&mut self, order: &TaskOrder) -> Result<(UnixListener, u32), NotLaunched> {
        let config = Arc::clone(&self.runner.config);
        let listener = prepare(&self.dir, &config, &order.machines)
            .and_then(|()| InitLink::bind(&self.dir.ctl()))
            .map_err(|error| NotLaunched {
                // Another machine, or this one later, may have room for it.
                cause: Cause::RuntimeFailed,
                message: format!("cannot make {}: {error}", self.dir.root().display()),
            })?;
        let spec = order.container(&self.dir, &config);
        let engine = Arc::clone(&self.runner.engine);
        self.try_engine(|| engine.create(&spec)).await?;
        let pid = self.try_engine(|| engine.start(&spec.uid)).await?;
        self.attach(pid, &order.storages).await;
        Ok((listener, pid))
    }

    /// Puts storages into the container, whose muster-init waits for what to run. Without them the task is ended before
    /// its commands.
    async fn attach(&mut self, pid: u32, places: &[AttachedPlace]) {
        if places.is_empty() {
            return;
        }
        let helper = &self.runner.config.storage_steps;
        if let Err(error) = helper.attach(pid, places.to_vec()).await {
            let cause = match error.is_of_image() {
                true => Cause::EngineRefused,
                false => Cause::StorageFailed,
            };
            self.stop = Some(StopCause {
                cause,
                message: format!("its storages cannot be mounted in the container: {error}"),
            });
        }
    }

    /// Asks the engine until it answers, so often as a launch may, or until a stop.
    async fn try_engine<T, F>(&mut self, mut call: impl FnMut() -> F) -> Result<T, NotLaunched>
    where
        F: Future<Output = Result<T, engine::EngineError>>,
    {
        let mut wait = self.runner.config.engine_wait;
        let mut tries = 1;
        loop {
            if let Some(stop) = self.stop_wanted() {
                return Err(stop);
            }
            match call().await {
                Ok(done) => return Ok(done),
                Err(engine::EngineError::Unavailable { .. })
                    if tries < self.runner.config.create_tries_max => {}
                Err(error) => return Err(not_launched(&error)),
            }
            tries += 1;
            tokio::select! {
                () = sleep(wait) => {}
                () = stop_asked(&mut self.wanted) => {}
            }
            wait = self.longer(wait);
        }
    }

    fn stop_wanted(&self) -> Option<NotLaunched> {
        let wanted = self.wanted.borrow();
        wanted.stop.as_ref().map(|stop| NotLaunched {
            cause: stop.cause,
            message: "stopped before it was started".to_owned(),
        })
    }

    pub(super) fn longer(&self, wait: Duration) -> Duration {
        (wait * 2).min(self.runner.config.engine_wait_max)
    }

    /// From the container's start to its end.
    async fn started(&mut self, listener: UnixListener, pid: u32) {
        self.tell(TaskEvent::Started {
            uid: self.uid.clone(),
        })
        .await;
        let mut link = InitLink::new(listener, pid);
        let witness = self.attend(&mut link).await;
        self.ended(witness).await;
    }

    /// The status of an adopted container, or `None` if there is none.
    async fn find(&self) -> Option<ContainerStatus> {
        let mut wait = self.runner.config.engine_wait;
        loop {
            match self.runner.engine.list().await {
                Ok(all) => {
                    let mine = all.into_iter().find(|container| container.uid == self.uid);
                    return mine.map(|container| container.status);
                }
                Err(error) => {
                    tracing::warn!(uid = %self.uid, %error, "cannot look for a task");
                    sleep(wait).await;
                    wait = self.longer(wait);
                }
            }
        }
    }

    pub(super) async fn tell(&self, event: TaskEvent) {
        // Nobody listens only when the agent ends.
        let _ = self.runner.events.send(event).await;
    }
}

fn not_launched(error: &engine::EngineError) -> NotLaunched {
    let cause = match error {
        engine::EngineError::NoImage(_) => Cause::ImageNotFound,
        engine::EngineError::NoDevice(_) => Cause::PortConflict,
        // No fault of the task, and it passes, or another machine is well: tried again without being
        // charged. What was just made and is gone again was taken away by somebody on this machine.
        engine::EngineError::Unavailable { .. }
        | engine::EngineError::Unfit { .. }
        | engine::EngineError::NoContainer(_)
        | engine::EngineError::NoProcess(_) => Cause::RuntimeFailed,
        engine::EngineError::BadImage { .. } | engine::EngineError::Refused { .. } => {
            Cause::EngineRefused
        }
    };
    NotLaunched {
        cause,
        message: error.to_string(),
    }
}

async fn stop_asked(wanted: &mut watch::Receiver<WantedState>) {
    if wanted
        .wait_for(|wanted| wanted.stop.is_some())
        .await
        .is_err()
    {
        std::future::pending().await
    }
}
