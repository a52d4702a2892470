//! The container engine as a port: what a node needs of it, and nothing more.
//!
//! [`Engine`] has a real side ([`containerd`]) and a fake one ([`fake`]); both pass the same
//! conformance tests. Every call is safe to repeat: after a crash the caller does not know
//! which of its calls arrived.

#[cfg(test)]
mod conformance;
pub mod containerd;
mod exec;
pub mod fake;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use muster_model::launch::TaskLimits;
use muster_model::task_use::DiskUse;

pub use exec::{ExecInput, ExecOutput, ExecProcess, ExecSpec, ExecStreams, StartedExec};

/// A directory or file of the host, mapped into the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindMount {
    /// On the host.
    pub source: PathBuf,
    /// In the container; created if missing.
    pub target: PathBuf,
    /// Mapped read-only.
    pub read_only: bool,
}

/// A container to create, every choice made.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// Names the container.
    pub uid: AttemptUid,
    /// Kept by the engine, so that a container can be told from its labels alone.
    pub labels: BTreeMap<String, String>,
    /// A name that [`crate::image::ImageStore::resolve`] knows.
    pub image: String,
    /// Limits that the kernel enforces. `disk_mb` is watched by the caller.
    pub limits: TaskLimits,
    /// The devices it may use.
    pub devices: Vec<DeviceGrant>,
    /// Environment besides the image's own, which it overrides.
    pub environment: BTreeMap<String, String>,
    /// Environment that the image overrides.
    pub default_environment: BTreeMap<String, String>,
    /// Host paths to map.
    pub mounts: Vec<BindMount>,
    /// The command, replacing the image's ENTRYPOINT and CMD. WORKDIR and USER stay the image's.
    pub args: Vec<String>,
    /// The logger process that gets stdout and stderr: containerd's `binary://` or `binary-v2://`.
    pub logger: Logger,
    /// Map /dev/infiniband and lift the locked-memory limit.
    pub infiniband: bool,
    /// Let its root user open raw and packet sockets on the host's network.
    pub raw_sockets: bool,
}

/// A device that a container may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceGrant {
    /// Its possible CDI names, as `nvidia.com/gpu=0`. What the host's CDI file says of the first
    /// that has one is done, because it brings the driver's libraries too.
    pub cdi_names: Vec<String>,
    /// Its device files, mapped and allowed where no CDI file names it.
    pub paths: Vec<PathBuf>,
}

impl DeviceGrant {
    /// A device that is nothing but a file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            cdi_names: Vec::new(),
            paths: vec![path.into()],
        }
    }
}

/// The program that takes a container's output, and its one argument pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logger {
    /// An absolute path on the host.
    pub binary: PathBuf,
    /// Where it writes: passed as the arguments `log-dir PATH`.
    pub dir: PathBuf,
}

/// What the engine knows of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Its name.
    pub uid: AttemptUid,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What it does.
    pub status: ContainerStatus,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerStatus {
    /// Made, not started.
    Created,
    /// Runs; `pid` is its first process as the host sees it.
    Running {
        /// The host's pid of the container's PID 1.
        pid: u32,
    },
    /// Its first process ended.
    Stopped(EngineExit),
    /// The engine keeps its record but has no process of it: `create` was cut short, or the
    /// machine restarted since. Nothing of it runs; how it ended is not known.
    NoProcess,
}

/// The end of a container's first process, as the engine kept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineExit {
    /// Exit status, 128+N for signal N.
    pub code: u32,
    /// When, milliseconds since the epoch; 0 if the engine did not say.
    pub ended_ms: u64,
}

/// What a container used, read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory now, bytes.
    pub memory_bytes: u64,
    /// The most memory so far, bytes, with the cache of files. None where the kernel does not count it.
    pub memory_peak_bytes: Option<u64>,
    /// CPU time so far, microseconds.
    pub cpu_usec: u64,
    /// What it read from and wrote to disks so far. None where the kernel does not count it for the container.
    pub disk: Option<DiskUse>,
    /// Processes and threads now.
    pub pids: u64,
    /// Times the kernel killed a process at the memory limit.
    pub oom_kills: u64,
    /// Times a fork was refused at the pids limit.
    pub pids_refused: u64,
}

/// What went wrong with an engine call, sorted by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The engine did not answer: not running, hung, or its socket is gone. Retry later;
    /// nothing is known about what it did.
    #[error("the container engine does not answer at {socket}: {reason}")]
    Unavailable {
        /// Where it should be.
        socket: String,
        /// What happened.
        reason: String,
    },
    /// No such container. Nothing was changed.
    #[error("container {0} does not exist")]
    NoContainer(AttemptUid),
    /// The container is there, but no process of it: see [`ContainerStatus::NoProcess`].
    #[error("container {0} has no process")]
    NoProcess(AttemptUid),
    /// The image is not here. Nothing was changed.
    #[error("image {0} is not on this node")]
    NoImage(String),
    /// The image is here, but its command, user or layers cannot be used.
    #[error("image {image}: {reason}")]
    BadImage {
        /// The image.
        image: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A device of the container is not there, or nothing says how to map it: this machine's fault.
    /// Nothing was changed.
    #[error("a device of the container cannot be used: {0}")]
    NoDevice(String),
    /// The engine could not do it here: the disk, a hook or the runtime failed, not the container. What it
    /// left behind is removed by `remove`.
    #[error("this machine's container engine failed to {call}: {reason}")]
    Unfit {
        /// What was asked.
        call: &'static str,
        /// Its own words.
        reason: String,
    },
    /// The engine refused, and it may be the container's fault. What it left behind is removed by `remove`.
    #[error("the container engine refused to {call}: {reason}")]
    Refused {
        /// What was asked.
        call: &'static str,
        /// Its own words.
        reason: String,
    },
}

/// The container engine of this node. All containers live in one namespace of it.
#[async_trait]
pub trait Engine: Send + Sync + fmt::Debug {
    /// Its name and version; also the check whether it answers.
    async fn version(&self) -> Result<String, EngineError>;

    /// Makes the container without starting it. A container of that uid that exists already
    /// is kept and counts as made.
    async fn create(&self, spec: &ContainerSpec) -> Result<(), EngineError>;

    /// Starts it and returns the host's pid of its first process. One that runs already counts
    /// as started.
    async fn start(&self, uid: &AttemptUid) -> Result<u32, EngineError>;

    /// Waits until its first process has ended.
    async fn wait(&self, uid: &AttemptUid) -> Result<EngineExit, EngineError>;

    /// Sends a signal to its first process. One that ended already counts as signalled.
    async fn signal(&self, uid: &AttemptUid, signal: i32) -> Result<(), EngineError>;

    /// Kills every process of it and removes it with its writable layer. Answers only when no
    /// process is left. One that does not exist counts as removed.
    async fn remove(&self, uid: &AttemptUid) -> Result<(), EngineError>;

    /// Every container of the namespace, whoever made it.
    async fn list(&self) -> Result<Vec<ContainerInfo>, EngineError>;

    /// What it uses now, from the kernel's counters. Works until it is removed.
    async fn usage(&self, uid: &AttemptUid) -> Result<Usage, EngineError>;

    /// Its processes, by their numbers on this machine.
    async fn process_ids(&self, uid: &AttemptUid) -> Result<Vec<u32>, EngineError>;

    /// Bytes in its writable layer.
    async fn writable_bytes(&self, uid: &AttemptUid) -> Result<u64, EngineError>;

    /// Starts a command in it, beside its first process. Unlike the others, not to be repeated: each call is a
    /// command more. [`EngineError::Refused`] where the container does not run.
    async fn exec(&self, uid: &AttemptUid, spec: &ExecSpec) -> Result<StartedExec, EngineError>;

    /// Ends a command of that id, which an earlier life of the caller has left. One that is not there counts as
    /// ended.
    async fn end_exec(&self, uid: &AttemptUid, id: &str) -> Result<(), EngineError>;
}
