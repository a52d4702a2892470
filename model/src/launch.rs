//! What a node is told to run: a task with every choice already made.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{AttemptUid, JobKey, TaskId};
use crate::job::JobStorage;
use crate::node::DeviceId;
use crate::ssh::SshAccess;

/// Where a task of an attempt runs, and what it holds there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskPlacement {
    /// The task.
    pub task: TaskId,
    /// The container's name; new for every attempt of the task.
    pub uid: AttemptUid,
    /// The node's id.
    pub node: crate::id::NodeId,
    /// Address that the other tasks reach it at.
    pub address: String,
    /// Its leaf cells on the node, by address: the indices of devices, or places beside them.
    pub leaves: Vec<u32>,
    /// The devices it was given, with their indices.
    pub devices: Vec<(u32, DeviceId)>,
    /// Ports by label, in the order users wrote the labels, `ssh` and `http` last.
    pub ports: Vec<(String, Vec<u16>)>,
}

impl TaskPlacement {
    /// Whether it is the same place for the same task, whatever its name there.
    pub fn is_same_place(&self, other: &Self) -> bool {
        (&self.task, &self.node, &self.leaves) == (&other.task, &other.node, &other.leaves)
            && (&self.devices, &self.ports) == (&other.devices, &other.ports)
    }
}

/// What a task may use at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLimits {
    /// CPU in whole cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Size of /dev/shm in MiB.
    pub shm_mb: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Size of the writable layer in MiB; 0 for no limit.
    pub disk_mb: u64,
}

/// A login for a registry. The password is sealed or clear, as the carrier says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistryAuth {
    /// User at the registry.
    pub username: String,
    /// Password or token; may hold `<% $secrets.x %>` until the node renders it.
    pub password: String,
    /// The registry, empty for the one the image names.
    pub registry: String,
}

/// One task, ready to run but for its secrets, which only the node opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The job.
    pub job: JobKey,
    /// The job's attempt.
    pub attempt: u32,
    /// The placement that this carries out.
    pub placement: TaskPlacement,
    /// The image as the job names it.
    pub image: String,
    /// Login for its registry.
    pub image_auth: Option<RegistryAuth>,
    /// Limits.
    pub limits: TaskLimits,
    /// It holds by a run lease of so many seconds; for as long as it likes if none.
    pub lease_s: Option<u32>,
    /// Its container is kept for so many seconds if it fails.
    pub hold_s: Option<u32>,
    /// Map `/dev/infiniband` and lift the locked-memory limit.
    pub infiniband: bool,
    /// The storages that it has.
    pub storages: Vec<JobStorage>,
    /// Who may log in to it, if anybody.
    pub ssh: Option<SshAccess>,
    /// Runtime plugins' commands before the user's. May hold `<% $secrets.x %>`.
    pub pre_commands: Vec<String>,
    /// The user's commands, rendered but for `<% $secrets.x %>`.
    pub entrypoint: String,
    /// Runtime plugins' commands after a success.
    pub post_commands: Vec<String>,
    /// Every variable of the task, PAI_* and the devices' included; in an order without those that all tasks
    /// of the job have.
    pub environment: BTreeMap<String, String>,
    /// The job's sealed secrets, opened only on this node; empty if it has none.
    pub sealed_secrets: Vec<u8>,
}
