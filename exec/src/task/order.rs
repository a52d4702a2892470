//! What a runner is told.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use muster_init::message::TaskSetup;
use muster_init::task_dir::{CONTAINER_CTL, CONTAINER_INIT, TaskDir};
use muster_model::id::AttemptUid;
use muster_model::launch::TaskLimits;

use super::dirs::HOSTS;
use super::hosts::HostEntry;
use crate::engine::{BindMount, ContainerSpec, DeviceGrant, Logger};
use crate::storage::{AttachedPlace, StorageStepRunner};

/// A task to run, every choice made and every secret opened.
#[derive(Clone, Debug)]
pub struct TaskOrder {
    /// Names the task's container and directory.
    pub uid: AttemptUid,
    /// Kept with the container.
    pub labels: BTreeMap<String, String>,
    /// A name that the image store knows.
    pub image: String,
    /// Limits. `disk_mb` is watched here, the others by the kernel.
    pub limits: TaskLimits,
    /// The devices it may use.
    pub devices: Vec<DeviceGrant>,
    /// Environment of the container itself, seen by the engine's hooks. No secrets: it lies in
    /// the engine's files. The commands' own environment is in `setup`.
    pub environment: BTreeMap<String, String>,
    /// Environment of the container that its image and the commands' own override.
    pub default_environment: BTreeMap<String, String>,
    /// The machines of its gang, its own first: their names mean these addresses in the container.
    pub machines: Vec<HostEntry>,
    /// Host paths to map besides muster-init's own.
    pub mounts: Vec<BindMount>,
    /// Storages, mounted already, to put into the container before its commands begin.
    pub storages: Vec<AttachedPlace>,
    /// Map /dev/infiniband and lift the locked-memory limit.
    pub infiniband: bool,
    /// Let it open raw and packet sockets on the host's network.
    pub raw_sockets: bool,
    /// How long its container is kept if its commands fail; none: it is not kept.
    pub hold: Option<Duration>,
    /// What to run. Travels over the task's socket only.
    pub setup: TaskSetup,
}

impl TaskOrder {
    /// The container that carries it out.
    pub(super) fn container(&self, dir: &TaskDir, config: &RunnerConfig) -> ContainerSpec {
        let mapped = |source, target: &str| BindMount {
            source,
            target: target.into(),
            read_only: true,
        };
        let own = [
            mapped(config.init_binary.clone(), CONTAINER_INIT),
            mapped(dir.ctl(), CONTAINER_CTL),
            mapped(dir.hosts(), HOSTS),
        ];
        ContainerSpec {
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            image: self.image.clone(),
            limits: self.limits.clone(),
            devices: self.devices.clone(),
            environment: self.environment.clone(),
            default_environment: self.default_environment.clone(),
            mounts: self.mounts.iter().cloned().chain(own).collect(),
            args: [CONTAINER_INIT, "run", CONTAINER_CTL]
                .map(Into::into)
                .into(),
            logger: Logger {
                binary: config.init_binary.clone(),
                dir: dir.log(),
            },
            infiniband: self.infiniband,
            raw_sockets: self.raw_sockets,
        }
    }
}

/// A task that an earlier agent process left.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// Which.
    pub uid: AttemptUid,
    /// Its limit in MiB for the writable layer; 0 for none.
    pub disk_mb: u64,
    /// Whether it has the fabric.
    pub infiniband: bool,
    /// What to run, if it may not have been told yet. Without it a task that waits for its
    /// setup fails.
    pub setup: Option<TaskSetup>,
}

/// What all runners of a node share.
#[derive(Clone, Debug)]
pub struct RunnerConfig {
    /// Holds a directory for each task: `STATE/tasks`.
    pub tasks_dir: PathBuf,
    /// The static muster-init on the host.
    pub init_binary: PathBuf,
    /// Where storages are mounted: `STATE/storages`.
    pub storages_dir: PathBuf,
    /// Puts storages into containers.
    pub storage_steps: StorageStepRunner,
    /// Size of one log file in bytes.
    pub log_file_bytes_max: u64,
    /// How much of the end of each log goes into the evidence, in bytes.
    pub log_tail_bytes_max: u64,
    /// How often the writable layer is measured at first.
    pub disk_interval: Duration,
    /// How often an engine that does not answer is asked to create a container before the
    /// launch is given up.
    pub create_tries_max: u32,
    /// First wait before the engine is asked again; doubles up to [`RunnerConfig::engine_wait_max`].
    pub engine_wait: Duration,
    /// Longest wait before the engine is asked again.
    pub engine_wait_max: Duration,
    /// How long after the grace of a stop the container itself is killed.
    pub kill_margin: Duration,
}

impl RunnerConfig {
    /// The usual settings, for a state directory and a muster-init.
    pub fn new(tasks_dir: PathBuf, init_binary: PathBuf) -> Self {
        let storages_dir = tasks_dir.with_file_name("storages");
        let storage_steps = StorageStepRunner::new(init_binary.clone(), storages_dir.clone());
        Self {
            tasks_dir,
            init_binary,
            storages_dir,
            storage_steps,
            log_file_bytes_max: 64 << 20,
            log_tail_bytes_max: 10 << 20,
            disk_interval: Duration::from_secs(10),
            create_tries_max: 5,
            engine_wait: Duration::from_millis(200),
            engine_wait_max: Duration::from_secs(5),
            kill_margin: Duration::from_secs(5),
        }
    }
}
