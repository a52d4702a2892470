//! A node with a fake engine and a runner that can be restarted.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use muster_exec::engine::fake::FakeEngine;
use muster_exec::engine::{
    ContainerInfo, ContainerSpec, Engine, EngineError, EngineExit, ExecSpec, StartedExec, Usage,
};
use muster_exec::task::{
    Adoption, Handle, RunnerConfig, TaskEvent, TaskOrder, TaskRunner, TaskSetup, task_dir,
};
use muster_init::task_dir::TaskDir;
use muster_model::exit::{Evidence, RawExit};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskLimits;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_secs(30);
const IMAGE: &str = "image";

/// The engine in a runtime of its own, as containerd is a process of its own.
#[derive(Debug)]
struct Apart {
    fake: Arc<FakeEngine>,
    runtime: tokio::runtime::Handle,
}

#[async_trait]
impl Engine for Apart {
    async fn version(&self) -> Result<String, EngineError> {
        self.fake.version().await
    }
    async fn create(&self, spec: &ContainerSpec) -> Result<(), EngineError> {
        self.fake.create(spec).await
    }
    async fn start(&self, uid: &AttemptUid) -> Result<u32, EngineError> {
        let (fake, uid) = (Arc::clone(&self.fake), uid.clone());
        let started = self.runtime.spawn(async move { fake.start(&uid).await });
        started.await.unwrap()
    }
    async fn wait(&self, uid: &AttemptUid) -> Result<EngineExit, EngineError> {
        self.fake.wait(uid).await
    }
    async fn signal(&self, uid: &AttemptUid, signal: i32) -> Result<(), EngineError> {
        self.fake.signal(uid, signal).await
    }
    async fn remove(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        self.fake.remove(uid).await
    }
    async fn list(&self) -> Result<Vec<ContainerInfo>, EngineError> {
        self.fake.list().await
    }
    async fn usage(&self, uid: &AttemptUid) -> Result<Usage, EngineError> {
        self.fake.usage(uid).await
    }
    async fn process_ids(&self, uid: &AttemptUid) -> Result<Vec<u32>, EngineError> {
        self.fake.process_ids(uid).await
    }
    async fn writable_bytes(&self, uid: &AttemptUid) -> Result<u64, EngineError> {
        self.fake.writable_bytes(uid).await
    }

    async fn exec(&self, uid: &AttemptUid, spec: &ExecSpec) -> Result<StartedExec, EngineError> {
        self.fake.exec(uid, spec).await
    }

    async fn end_exec(&self, uid: &AttemptUid, id: &str) -> Result<(), EngineError> {
        self.fake.end_exec(uid, id).await
    }
}

/// The agent process's part: what a restart loses.
#[derive(Debug)]
pub(crate) struct Agent {
    runtime: Runtime,
    runner: TaskRunner,
    events: mpsc::Receiver<TaskEvent>,
}

/// Fields end in this order: the agent first, its files last.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) agent: Option<Agent>,
    pub(crate) fake: Arc<FakeEngine>,
    pub(crate) config: RunnerConfig,
    engine: Runtime,
    home: TempDir,
}

impl Drop for Node {
    /// A failed test leaves nothing running either.
    fn drop(&mut self) {
        self.stop_agent();
        self.kill_strays();
    }
}

pub(crate) fn uid(text: &str) -> AttemptUid {
    text.parse().unwrap()
}

pub(crate) fn setup(script: &str) -> TaskSetup {
    TaskSetup {
        environment: BTreeMap::new(),
        pre_commands: Vec::new(),
        script: script.to_owned(),
        post_commands: Vec::new(),
        workdir: None,
        grace_ms: 10_000,
        lease: None,
    }
}

pub(crate) fn order(name: &str, script: &str) -> TaskOrder {
    TaskOrder {
        uid: uid(name),
        labels: BTreeMap::new(),
        image: IMAGE.to_owned(),
        limits: TaskLimits {
            cpu: 1,
            memory_mb: 64,
            shm_mb: 0,
            pids: 64,
            disk_mb: 0,
        },
        devices: Vec::new(),
        environment: BTreeMap::new(),
        default_environment: BTreeMap::new(),
        machines: Vec::new(),
        mounts: Vec::new(),
        storages: Vec::new(),
        infiniband: false,
        raw_sockets: false,
        hold: None,
        setup: setup(script),
    }
}

impl Node {
    /// Puts a file where a task's directory would be made.
    pub(crate) fn block(&self, uid: &str) {
        let tasks = self.home.path().join("tasks");
        std::fs::create_dir_all(&tasks).unwrap();
        std::fs::write(tasks.join(uid), "").unwrap();
    }

    /// Puts a file where a container's writable layer would be made.
    pub(crate) fn block_layer(&self, uid: &str) {
        let layers = self.home.path().join("engine");
        std::fs::create_dir_all(&layers).unwrap();
        std::fs::write(layers.join(uid), "").unwrap();
    }

    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let fake = Arc::new(FakeEngine::new(home.path().join("engine"), [IMAGE]));
        let init = std::env::current_exe().unwrap();
        let mut config = RunnerConfig::new(home.path().join("tasks"), init);
        config.engine_wait = Duration::from_millis(1);
        config.disk_interval = Duration::from_millis(10);
        let mut node = Self {
            agent: None,
            fake,
            config,
            engine: Runtime::new().unwrap(),
            home,
        };
        node.start_agent();
        node
    }

    /// Ends the agent as a crash would, and starts another.
    pub(crate) fn restart_agent(&mut self) {
        self.stop_agent();
        self.start_agent();
    }

    pub(crate) fn stop_agent(&mut self) {
        self.agent = None;
    }

    pub(crate) fn start_agent(&mut self) {
        let engine = Apart {
            fake: Arc::clone(&self.fake),
            runtime: self.engine.handle().clone(),
        };
        let (sender, events) = mpsc::channel(16);
        self.agent = Some(Agent {
            runtime: Runtime::new().unwrap(),
            runner: TaskRunner::new(Arc::new(engine), self.config.clone(), sender),
            events,
        });
    }

    /// Kills the tasks' processes, as the kernel does where a container's first process ends.
    pub(crate) fn kill_strays(&self) {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_string_lossy().parse();
            let cwd = std::fs::read_link(entry.path().join("cwd"));
            if let (Ok(pid), Ok(cwd)) = (pid, cwd)
                && cwd.starts_with(self.home.path())
            {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    fn agent(&mut self) -> &mut Agent {
        self.agent.as_mut().unwrap()
    }

    pub(crate) fn spawn(&mut self, order: TaskOrder) -> Handle {
        let agent = self.agent();
        let _inside = agent.runtime.enter();
        agent.runner.spawn(order)
    }

    pub(crate) fn adopt(&mut self, name: &str, setup: Option<TaskSetup>) -> Handle {
        let agent = self.agent();
        let _inside = agent.runtime.enter();
        agent.runner.adopt(Adoption {
            uid: uid(name),
            disk_mb: 0,
            infiniband: false,
            setup,
        })
    }

    pub(crate) fn dir(&self, name: &str) -> TaskDir {
        task_dir(&self.config, &uid(name))
    }

    pub(crate) fn log(&self, name: &str, file: &str) -> String {
        std::fs::read_to_string(self.dir(name).log().join(file)).unwrap_or_default()
    }

    pub(crate) fn next(&mut self) -> TaskEvent {
        let agent = self.agent();
        let next = async { tokio::time::timeout(PATIENCE, agent.events.recv()).await };
        agent.runtime.block_on(next).unwrap().unwrap()
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.engine.block_on(future)
    }

    pub(crate) fn expect_started(&mut self, name: &str) {
        let event = self.next();
        assert_eq!(event, TaskEvent::Started { uid: uid(name) });
    }

    pub(crate) fn expect_ready(&mut self, name: &str) {
        let event = self.next();
        assert_eq!(event, TaskEvent::Ready { uid: uid(name) });
    }

    pub(crate) fn expect_running(&mut self) -> u64 {
        match self.next() {
            TaskEvent::Running { launched_ms, .. } => launched_ms,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn expect_exited(&mut self) -> Evidence {
        match self.next() {
            TaskEvent::Exited { evidence, .. } => *evidence,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn expect_failed(&mut self) -> RawExit {
        match self.next() {
            TaskEvent::LaunchFailed { exit, .. } => exit,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn expect_gone(&mut self, name: &str) {
        let event = self.next();
        assert_eq!(event, TaskEvent::Gone { uid: uid(name) });
        assert!(self.block_on(self.fake.list()).unwrap().is_empty());
    }

    /// Runs a task until its command has written `up`.
    pub(crate) fn run_until_up(&mut self, order: TaskOrder) -> Handle {
        let name = order.uid.to_string();
        let handle = self.spawn(order);
        handle.go();
        self.expect_started(&name);
        self.expect_ready(&name);
        self.expect_running();
        self.wait_for("it is up", |node| node.log(&name, "all").contains("up\n"));
        handle
    }

    /// Waits for a condition, and fails when it does not come.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let done = self.block_on(async { tokio::time::timeout(PATIENCE, wait).await });
        assert!(done.is_ok(), "waited in vain until {what}");
    }
}
