//! The real engine: containerd 1.6 to 2.x over its gRPC socket, with runc or crun below it.
//!
//! A container is three things there: a record (labels, specification), a snapshot (its
//! writable layer) and a process that a shim looks after. They are made in this order and
//! removed in the reverse one, so that whatever a crash leaves is listed by its record, and
//! containerd's garbage collector, which starts from records, spares the snapshot.
//! Each step counts "it exists already" or "it is gone already" as done.

mod connection;
mod exec;
mod image;
mod layers;
mod log_scheme;
mod network;
mod process;
mod record;
mod refusal;
mod runtime;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use containerd_client::types::v1::{Process, Status as ProcessStatus};
use futures::future;
use muster_model::id::AttemptUid;
use nix::sys::resource::{Resource, getrlimit};
use tonic::Code;

use super::{
    ContainerInfo, ContainerSpec, ContainerStatus, Engine, EngineError, EngineExit, ExecSpec,
    StartedExec, Usage,
};
use crate::cgroup::{CgroupError, Cgroups};
use crate::oci::{self, HostFacts};
use connection::EngineConnection;
use image::ImageCache;
use log_scheme::LogScheme;
use runtime::RuntimeProgram;

/// How to reach containerd, and what to use of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerdConfig {
    /// Its gRPC socket.
    pub socket: PathBuf,
    /// The namespace that all containers and images live in.
    pub namespace: String,
    /// The snapshotter that makes writable layers.
    pub snapshotter: String,
    /// The program that makes containers: a name, a path, or `auto` for crun where it works and
    /// runc elsewhere.
    pub runtime: String,
    /// A call that takes longer counts as unanswered. Covers the slowest one, making a
    /// container's process on a busy machine.
    pub call_timeout: Duration,
    /// The control group that all containers' groups are made in: letters, digits, `_`.
    pub cgroup_parent: String,
    /// Where CDI files lie; a later directory outranks an earlier one.
    pub cdi_dirs: Vec<PathBuf>,
}

impl Default for ContainerdConfig {
    fn default() -> Self {
        Self {
            socket: "/run/containerd/containerd.sock".into(),
            namespace: "muster".to_owned(),
            snapshotter: "overlayfs".to_owned(),
            runtime: runtime::AUTO.to_owned(),
            call_timeout: Duration::from_secs(30),
            cgroup_parent: "muster".to_owned(),
            cdi_dirs: vec!["/etc/cdi".into(), "/var/run/cdi".into()],
        }
    }
}

/// The engine on containerd.
#[derive(Debug)]
pub struct Containerd {
    socket: PathBuf,
    connection: EngineConnection,
    images: ImageCache,
    log_scheme: LogScheme,
    snapshotter: String,
    runtime: RuntimeProgram,
    host: HostFacts,
}

impl Containerd {
    /// Prepares the connection; containerd need not run yet and may restart at any time.
    /// Fails if the configuration, its runtime or this machine's control groups cannot be used. Has to be
    /// called within a tokio runtime.
    pub fn connect(config: ContainerdConfig) -> Result<Self, EngineError> {
        let unusable = |reason: String| EngineError::Refused {
            call: "connect",
            reason,
        };
        let cgroups = Cgroups::detect("/".as_ref(), &config.cgroup_parent)
            .map_err(|e| unusable(e.to_string()))?;
        let path = std::env::var("PATH").unwrap_or_default();
        let runtime = runtime::choose(&config.runtime, &path, &cgroups).map_err(unusable)?;
        tracing::info!(runtime = %runtime.display(), "containers are made by");
        Ok(Self {
            socket: config.socket.clone(),
            connection: EngineConnection::new(
                config.socket,
                &config.namespace,
                config.call_timeout,
            )
            .map_err(unusable)?,
            images: ImageCache::default(),
            log_scheme: LogScheme::default(),
            snapshotter: config.snapshotter,
            runtime: RuntimeProgram::new(runtime),
            host: HostFacts {
                cgroups,
                network: None,
                cdi_dirs: config.cdi_dirs,
                open_files_max: open_files_max().map_err(|e| unusable(e.to_string()))?,
            },
        })
    }
}

#[async_trait]
impl Engine for Containerd {
    async fn version(&self) -> Result<String, EngineError> {
        let connection = &self.connection;
        let answer = connection
            .call(connection.client().version().version(()))
            .await
            .map_err(|fault| connection.error("tell its version", fault))?;
        Ok(format!(
            "containerd {} with {}",
            answer.version,
            self.runtime.describe()
        ))
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<(), EngineError> {
        let image = self.image(&spec.image).await.map_err(refusal::of_machine)?;
        let host = HostFacts {
            network: network::of_agent(&self.socket),
            ..self.host.clone()
        };
        let document = oci::document(spec, &image.defaults, &host)
            .map_err(|error| EngineError::NoDevice(with_source(&error)))?;
        let rootfs = async {
            self.create_record(spec, document.to_string()).await?;
            self.create_snapshot(spec, &image).await
        };
        let rootfs = rootfs.await.map_err(refusal::of_machine)?;
        let created = self.create_process(spec, rootfs).await;
        created.map_err(refusal::sorted)
    }

    async fn start(&self, uid: &AttemptUid) -> Result<u32, EngineError> {
        let refused = match self.start_process(uid).await {
            Ok(pid) => return Ok(pid),
            Err(fault) => fault,
        };
        match self.process(uid).await? {
            Some(process) if process.status() != ProcessStatus::Created => Ok(process.pid),
            Some(_) => {
                let error = self.connection.error("start the container", refused);
                Err(refusal::sorted(error))
            }
            None => Err(self.absent(uid).await),
        }
    }

    async fn wait(&self, uid: &AttemptUid) -> Result<EngineExit, EngineError> {
        match self.wait_process(uid).await {
            Ok(exit) => Ok(exit),
            Err(fault) if fault.is(Code::NotFound) => Err(self.absent(uid).await),
            Err(fault) => Err(self.connection.error("wait for the container", fault)),
        }
    }

    async fn signal(&self, uid: &AttemptUid, signal: i32) -> Result<(), EngineError> {
        let refused = match self.kill_process(uid, signal).await {
            Ok(()) => return Ok(()),
            Err(fault) => fault,
        };
        match self.process(uid).await? {
            Some(process) if process.status() == ProcessStatus::Stopped => Ok(()),
            Some(_) => Err(self.connection.error("signal the container", refused)),
            None => Err(self.absent(uid).await),
        }
    }

    async fn remove(&self, uid: &AttemptUid) -> Result<(), EngineError> {
        self.remove_process(uid).await?;
        self.remove_snapshot(uid).await?;
        self.remove_record(uid).await
    }

    async fn list(&self) -> Result<Vec<ContainerInfo>, EngineError> {
        let (records, mut processes) = future::try_join(self.records(), self.processes()).await?;
        let mut containers = Vec::with_capacity(records.len());
        for (uid, labels) in records {
            let process = match processes.remove(uid.as_str()) {
                Some(process) => Some(process),
                // containerd leaves a process out whose shim does not answer. That is not the
                // same as having none, so ask for it by name.
                None => self.process(&uid).await?,
            };
            containers.push(ContainerInfo {
                uid,
                labels,
                status: process.as_ref().map_or(ContainerStatus::NoProcess, status),
            });
        }
        Ok(containers)
    }

    async fn usage(&self, uid: &AttemptUid) -> Result<Usage, EngineError> {
        match self.host.cgroups.usage(uid.as_str()) {
            Ok(usage) => Ok(usage),
            Err(error) => Err(self
                .uncounted(uid, ("count the container's usage", error))
                .await),
        }
    }

    async fn process_ids(&self, uid: &AttemptUid) -> Result<Vec<u32>, EngineError> {
        match self.host.cgroups.process_ids(uid.as_str()) {
            Ok(found) => Ok(found),
            Err(error) => Err(self
                .uncounted(uid, ("list the container's processes", error))
                .await),
        }
    }

    async fn writable_bytes(&self, uid: &AttemptUid) -> Result<u64, EngineError> {
        match self.snapshot_bytes(uid).await {
            Ok(bytes) => Ok(bytes),
            Err(fault) if fault.is(Code::NotFound) => Err(self.absent(uid).await),
            Err(fault) => Err(self.connection.error("measure the writable layer", fault)),
        }
    }

    async fn exec(&self, uid: &AttemptUid, spec: &ExecSpec) -> Result<StartedExec, EngineError> {
        self.start_exec(uid, spec).await
    }

    async fn end_exec(&self, uid: &AttemptUid, id: &str) -> Result<(), EngineError> {
        self.forget_exec(uid, id).await
    }
}

impl Containerd {
    /// Why a container's control group cannot be read.
    async fn uncounted(
        &self,
        uid: &AttemptUid,
        (call, error): (&'static str, CgroupError),
    ) -> EngineError {
        match self.process(uid).await {
            Err(error) => error,
            Ok(Some(_)) => EngineError::Refused {
                call,
                reason: with_source(&error),
            },
            Ok(None) => self.absent(uid).await,
        }
    }
}

/// What a process of containerd's says of its container.
fn status(process: &Process) -> ContainerStatus {
    match process.status() {
        ProcessStatus::Created => ContainerStatus::Created,
        ProcessStatus::Stopped => {
            ContainerStatus::Stopped(process::exit(process.exit_status, process.exited_at))
        }
        ProcessStatus::Running
        | ProcessStatus::Paused
        | ProcessStatus::Pausing
        | ProcessStatus::Unknown => ContainerStatus::Running { pid: process.pid },
    }
}

fn open_files_max() -> Result<u64, nix::errno::Errno> {
    getrlimit(Resource::RLIMIT_NOFILE).map(|(_, hard)| hard)
}

/// An error with its cause, for the one line that a refusal has.
fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Labels in order.
type Labels = BTreeMap<String, String>;
