//! The life of one task as sequential IO.

use std::sync::Arc;
use std::time::Duration;

use muster_init::exit_report::{ExitReport, Phase};
use muster_init::message::{self, Go, Hello, Setup, ToAgent, ToInit};
use muster_init::task_dir::TaskDir;
use muster_model::exit::{Cause, RawExit};
use muster_model::id::AttemptUid;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::dirs::{prepare, task_dir};
use super::disk_watch::over_limit;
use super::end::{StopCause, Witness, now_ms, raw_exit, report_of};
use super::event::Event;
use super::evidence::{gather, logger_done, reached_by_log};
use super::handle::{Handle, Wanted};
use super::init_link::InitLink;
use super::order::{Adoption, Config, TaskOrder};
use crate::engine::{self, Engine, EngineExit, Status, Usage};

const SIGTERM: i32 = libc::SIGTERM;
const SIGKILL: i32 = libc::SIGKILL;
/// How long the last words of an ended muster-init are waited for. They are in the socket
/// already.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// Grace of a stop for an overfull disk: what runs on only makes it worse.
const DISK_GRACE: Duration = Duration::from_secs(5);

/// Runs tasks; each on a tokio task of its own.
#[derive(Clone, Debug)]
pub struct TaskRunner {
    engine: Arc<dyn Engine>,
    config: Arc<Config>,
    events: mpsc::Sender<Event>,
}

impl TaskRunner {
    /// A runner of tasks on `engine` that tells of them through `events`.
    pub fn new(engine: Arc<dyn Engine>, config: Config, events: mpsc::Sender<Event>) -> Self {
        Self {
            engine,
            config: Arc::new(config),
            events,
        }
    }

    /// Runs a new task. To repeat an order after a crash is safe: what is there is kept.
    pub fn spawn(&self, order: TaskOrder) -> Handle {
        let (handle, wanted) = Handle::new(order.uid.clone());
        let setup = Some(order.setup.clone());
        let life = self.life(&order.uid, order.limits.disk_mb, setup, wanted);
        tokio::spawn(life.run(order));
        handle
    }

    /// Goes on with a task that an earlier process began.
    pub fn adopt(&self, adoption: Adoption) -> Handle {
        let (handle, wanted) = Handle::new(adoption.uid.clone());
        let life = self.life(&adoption.uid, adoption.disk_mb, adoption.setup, wanted);
        tokio::spawn(life.resume());
        handle
    }

    fn life(
        &self,
        uid: &AttemptUid,
        disk_mb: u64,
        setup: Option<Setup>,
        wanted: watch::Receiver<Wanted>,
    ) -> Life {
        Life {
            dir: task_dir(&self.config, uid),
            uid: uid.clone(),
            runner: self.clone(),
            disk_mb,
            setup,
            wanted,
            reached: Phase::Setup,
            launched_ms: 0,
            told_ready: false,
            told_running: false,
            stop: None,
        }
    }
}

/// One task from its creation to its removal.
#[derive(Debug)]
struct Life {
    runner: TaskRunner,
    uid: AttemptUid,
    dir: TaskDir,
    disk_mb: u64,
    setup: Option<Setup>,
    wanted: watch::Receiver<Wanted>,
    /// How far muster-init said it is.
    reached: Phase,
    launched_ms: u64,
    told_ready: bool,
    told_running: bool,
    stop: Option<StopCause>,
}

/// A launch that did not get as far as a container that runs.
#[derive(Debug)]
struct NotLaunched {
    cause: Cause,
    message: String,
}

impl Life {
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
            Some(Status::Running { pid }) => {
                match InitLink::bind(&self.dir.ctl()) {
                    Ok(listener) => self.started(listener, pid).await,
                    Err(error) => self.unreachable(&error).await,
                }
                return self.remove().await;
            }
            Some(Status::Stopped(exit)) => ContainerEnd::Exit(exit),
            Some(Status::Created) => missing(Cause::Lost, "it was never started"),
            Some(Status::NoProcess) => missing(
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
        let listener = prepare(&self.dir, &config)
            .and_then(|()| InitLink::bind(&self.dir.ctl()))
            .map_err(|error| NotLaunched {
                cause: Cause::EngineRefused,
                message: format!("cannot make {}: {error}", self.dir.root().display()),
            })?;
        let spec = order.container(&self.dir, &config);
        let engine = Arc::clone(&self.runner.engine);
        self.try_engine(|| engine.create(&spec)).await?;
        let pid = self.try_engine(|| engine.start(&spec.uid)).await?;
        Ok((listener, pid))
    }

    /// Asks the engine until it answers, so often as a launch may, or until a stop.
    async fn try_engine<T, F>(&mut self, mut call: impl FnMut() -> F) -> Result<T, NotLaunched>
    where
        F: Future<Output = Result<T, engine::Error>>,
    {
        let mut wait = self.runner.config.engine_wait;
        let mut tries = 1;
        loop {
            if let Some(stop) = self.stop_wanted() {
                return Err(stop);
            }
            match call().await {
                Ok(done) => return Ok(done),
                Err(engine::Error::Unavailable { .. })
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

    fn longer(&self, wait: Duration) -> Duration {
        (wait * 2).min(self.runner.config.engine_wait_max)
    }

    /// From the container's start to its end.
    async fn started(&mut self, listener: UnixListener, pid: u32) {
        self.tell(Event::Started {
            uid: self.uid.clone(),
        })
        .await;
        let mut link = InitLink::new(listener, pid);
        let witness = self.attend(&mut link).await;
        self.ended(witness).await;
    }

    /// Serves muster-init until the task has ended.
    async fn attend(&mut self, link: &mut InitLink) -> Witness {
        let (engine, config) = (
            Arc::clone(&self.runner.engine),
            Arc::clone(&self.runner.config),
        );
        let (uid, disk_mb) = (self.uid.clone(), self.disk_mb);
        let mut wanted = self.wanted.clone();
        wanted.mark_changed();
        let mut kill_at = None;
        let mut disk_full = false;
        let container_end = container_end(&*engine, &uid, &config);
        let disk = over_limit(&*engine, &uid, disk_mb, &config);
        tokio::pin!(container_end, disk);
        loop {
            tokio::select! {
                biased;
                message = link.next() => {
                    if let Some(witness) = self.heard(link, message).await {
                        return witness;
                    }
                }
                Ok(()) = wanted.changed() => {
                    let now = wanted.borrow_and_update().clone();
                    if let Some(stop) = &now.stop {
                        let asked = StopCause { cause: stop.cause, message: String::new() };
                        self.stop.get_or_insert(asked);
                        kill_at = sooner(kill_at, self.ask_stop(link, stop.grace).await);
                    } else if now.go {
                        self.send_go(link).await;
                    }
                }
                message = &mut disk, if !disk_full => {
                    disk_full = true;
                    let cause = Cause::DiskLimit;
                    self.stop.get_or_insert(StopCause { cause, message });
                    kill_at = sooner(kill_at, self.ask_stop(link, DISK_GRACE).await);
                }
                () = until(kill_at) => {
                    self.signal(SIGKILL).await;
                    kill_at = Some(Instant::now() + config.kill_margin);
                }
                end = &mut container_end => return self.last_words(link, end).await,
            }
        }
    }

    /// Takes a message; the last one is the end.
    async fn heard(&mut self, link: &mut InitLink, message: ToAgent) -> Option<Witness> {
        match message {
            ToAgent::Hello(hello) => self.greet(link, &hello).await,
            ToAgent::Ready(_) => self.ready(link).await,
            ToAgent::Progress(progress) => {
                if self.launched_ms == 0 {
                    self.launched_ms = progress.at_ms;
                }
                self.reached = self.reached.max(progress.phase);
                self.running().await;
            }
            // The report that follows says it all.
            ToAgent::SetupFailed(failure) => {
                tracing::info!(uid = %self.uid, message = failure.message, "a setup failed");
            }
            ToAgent::Exit(report) => return Some(Witness::Report(report)),
        }
        None
    }

    /// Answers a hello with whatever its sender may have missed.
    async fn greet(&mut self, link: &mut InitLink, hello: &Hello) {
        if hello.phase < Phase::Ended {
            self.reached = self.reached.max(hello.phase);
        }
        if hello.launched_ms != 0 {
            self.launched_ms = hello.launched_ms;
        }
        match hello.phase {
            Phase::Setup => match self.setup.clone() {
                Some(setup) => link.send(&ToInit::Setup(setup)).await,
                None => {
                    self.stop.get_or_insert(StopCause {
                        cause: Cause::Lost,
                        message: "the agent restarted before it had told the task what to run"
                            .to_owned(),
                    });
                    link.send(&stop_message(Duration::ZERO)).await;
                }
            },
            Phase::Ready => self.ready(link).await,
            Phase::PreCommands | Phase::UserCommands | Phase::PostCommands => self.running().await,
            Phase::Ended => {}
        }
        let stop = self.wanted.borrow().stop.clone();
        if let Some(stop) = stop {
            link.send(&stop_message(stop.grace)).await;
        } else if self.stop.is_some() {
            link.send(&stop_message(DISK_GRACE)).await;
        }
    }

    async fn ready(&mut self, link: &mut InitLink) {
        self.reached = self.reached.max(Phase::Ready);
        // It holds secrets, and is not needed any more.
        self.setup = None;
        if !self.told_ready {
            self.told_ready = true;
            self.tell(Event::Ready {
                uid: self.uid.clone(),
            })
            .await;
        }
        self.send_go(link).await;
    }

    async fn send_go(&mut self, link: &mut InitLink) {
        let go = self.wanted.borrow().go;
        if go && self.stop.is_none() && self.reached == Phase::Ready {
            link.send(&ToInit::Go(Go {})).await;
        }
    }

    async fn running(&mut self) {
        self.setup = None;
        if !self.told_running {
            self.told_running = true;
            self.tell(Event::Running {
                uid: self.uid.clone(),
                launched_ms: self.launched_ms,
            })
            .await;
        }
    }

    /// Asks for the end and says when it must have come.
    async fn ask_stop(&mut self, link: &mut InitLink, grace: Duration) -> Instant {
        if link.is_connected() {
            link.send(&stop_message(grace)).await;
        } else {
            self.signal(SIGTERM).await;
        }
        Instant::now() + grace + self.runner.config.kill_margin
    }

    /// An engine that does not answer is no reason to fail: the signal is repeated.
    async fn signal(&self, signal: i32) {
        if let Err(error) = self.runner.engine.signal(&self.uid, signal).await {
            tracing::warn!(uid = %self.uid, signal, %error, "cannot signal a task");
        }
    }

    /// The container ended; its report may be on its way or on disk.
    async fn last_words(&mut self, link: &mut InitLink, end: ContainerEnd) -> Witness {
        while let Some(message) = link.next_left(LAST_WORDS).await {
            if let Some(witness) = self.heard(link, message).await {
                return witness;
            }
        }
        self.witness(end).await
    }

    async fn witness(&mut self, end: ContainerEnd) -> Witness {
        logger_done(&self.dir).await;
        match (self.stored_report(), end) {
            (Some(report), _) => Witness::Report(report),
            (None, ContainerEnd::Exit(exit)) => Witness::Engine(exit),
            (None, ContainerEnd::Missing(cause, message)) => Witness::Nobody(cause, message),
        }
    }

    fn stored_report(&self) -> Option<ExitReport> {
        ExitReport::load(&self.dir.exit_report())
            .inspect_err(|error| tracing::warn!(uid = %self.uid, %error, "cannot read its exit"))
            .ok()
            .flatten()
    }

    async fn ended(&mut self, witness: Witness) {
        if let Witness::Report(report) = &witness {
            self.reached = self.reached.max(report.phase);
        }
        let usage = self.usage().await;
        let exit = raw_exit(&witness, self.reached, self.stop.as_ref(), usage);
        if !matches!(witness, Witness::Report(_)) {
            self.store(&exit);
        }
        self.tell_end(exit).await;
    }

    async fn tell_end(&self, exit: RawExit) {
        let uid = self.uid.clone();
        let event = if self.reached <= Phase::Ready {
            Event::LaunchFailed { uid, exit }
        } else {
            let tail_bytes_max = self.runner.config.log_tail_bytes_max;
            let evidence = gather(&self.dir, exit, tail_bytes_max).await;
            Event::Exited {
                uid,
                evidence: Box::new(evidence),
            }
        };
        self.tell(event).await;
    }

    /// Readers of the log end where there is an exit.
    fn store(&self, exit: &RawExit) {
        let report = report_of(exit, self.reached, self.launched_ms);
        if let Err(error) = report.store(&self.dir.exit_report()) {
            tracing::warn!(uid = %self.uid, %error, "cannot store its exit");
        }
    }

    async fn usage(&self) -> Usage {
        self.runner
            .engine
            .usage(&self.uid)
            .await
            .unwrap_or_default()
    }

    async fn not_launched(&mut self, failed: NotLaunched) {
        let exit = RawExit {
            code: 1,
            signal: None,
            oom_killed: false,
            phase: muster_model::exit::Phase::Launch,
            cause: Some(failed.cause),
            message: failed.message,
            ended_ms: now_ms(),
        };
        self.store(&exit);
        self.tell_end(exit).await;
    }

    /// The status of an adopted container, or `None` if there is none.
    async fn find(&self) -> Option<Status> {
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

    /// An adopted task that ended while no agent was there.
    async fn ended_meanwhile(&mut self, end: ContainerEnd) {
        self.reached = reached_by_log(&self.dir);
        let witness = self.witness(end).await;
        self.ended(witness).await;
    }

    /// Its socket cannot be made: it can run to its end, but nobody can talk with it.
    async fn unreachable(&mut self, error: &std::io::Error) {
        tracing::error!(uid = %self.uid, %error, "cannot listen for a task");
        let runner = self.runner.clone();
        let end = container_end(&*runner.engine, &self.uid, &runner.config).await;
        self.ended_meanwhile(end).await;
    }

    /// Removes the container, however long that takes. Its devices are free only then.
    async fn remove(&self) {
        let mut wait = self.runner.config.engine_wait;
        while let Err(error) = self.runner.engine.remove(&self.uid).await {
            tracing::warn!(uid = %self.uid, %error, "cannot remove a container yet");
            sleep(wait).await;
            wait = self.longer(wait);
        }
        // The sockets serve nobody any more; a leftover is removed with the logs.
        let _ = std::fs::remove_dir_all(self.dir.ctl());
        self.tell(Event::Gone {
            uid: self.uid.clone(),
        })
        .await;
    }

    async fn tell(&self, event: Event) {
        // Nobody listens only when the agent ends.
        let _ = self.runner.events.send(event).await;
    }
}

/// The end of a container as the engine tells it.
#[derive(Debug)]
enum ContainerEnd {
    Exit(EngineExit),
    Missing(Cause, String),
}

/// Waits for a container's end, over any absence of the engine.
async fn container_end(engine: &dyn Engine, uid: &AttemptUid, config: &Config) -> ContainerEnd {
    let mut wait = config.engine_wait;
    loop {
        match engine.wait(uid).await {
            Ok(exit) => return ContainerEnd::Exit(exit),
            Err(error @ (engine::Error::NoContainer(_) | engine::Error::NoProcess(_))) => {
                return ContainerEnd::Missing(Cause::Lost, error.to_string());
            }
            Err(error) => {
                tracing::warn!(%uid, %error, "cannot wait for a task; it runs on");
                sleep(wait).await;
                wait = (wait * 2).min(config.engine_wait_max);
            }
        }
    }
}

fn not_launched(error: &engine::Error) -> NotLaunched {
    let cause = match error {
        engine::Error::NoImage(_) => Cause::ImageNotFound,
        engine::Error::Unavailable { .. }
        | engine::Error::NoContainer(_)
        | engine::Error::NoProcess(_)
        | engine::Error::BadImage { .. }
        | engine::Error::Refused { .. } => Cause::EngineRefused,
    };
    NotLaunched {
        cause,
        message: error.to_string(),
    }
}

fn stop_message(grace: Duration) -> ToInit {
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    ToInit::Stop(message::Stop { grace_ms })
}

fn sooner(a: Option<Instant>, b: Instant) -> Option<Instant> {
    Some(a.map_or(b, |a| a.min(b)))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn stop_asked(wanted: &mut watch::Receiver<Wanted>) {
    if wanted
        .wait_for(|wanted| wanted.stop.is_some())
        .await
        .is_err()
    {
        std::future::pending().await
    }
}
