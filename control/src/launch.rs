//! A launchable task from the job and its placement.

use muster_model::job::{RoleSpec, SHM_MB_DEFAULT};
use muster_model::launch::{TaskLimits, TaskSpec};

use crate::environment::{self, TaskContext};
use crate::lease::LeaseTime;

/// Processes and threads of one task at most; bounds a fork bomb.
pub(crate) const PIDS_MAX: u32 = 32_768;

/// The task as its node is told to run it, but for the variables that it shares with the others of its job.
pub(crate) fn task_spec(
    part: &TaskContext<'_>,
    role: &RoleSpec,
    disk_mb: u64,
    lease: Option<LeaseTime>,
    sealed_secrets: &[u8],
) -> TaskSpec {
    TaskSpec {
        job: part.key.clone(),
        attempt: part.attempt,
        placement: part.place.clone(),
        image: role.image.clone(),
        image_auth: role.image_auth.clone(),
        limits: TaskLimits {
            cpu: role.resources.cpu,
            memory_mb: role.resources.memory_mb,
            shm_mb: u64::from(role.shm_mb.unwrap_or(SHM_MB_DEFAULT)),
            pids: PIDS_MAX,
            disk_mb,
        },
        lease_s: lease.map(|lease| lease.seconds),
        hold_s: None,
        infiniband: role.infiniband,
        storages: role.storages.clone(),
        ssh: role.ssh.clone(),
        pre_commands: role.pre_commands.clone(),
        entrypoint: role.entrypoint.clone(),
        post_commands: role.post_commands.clone(),
        environment: environment::own(part),
        sealed_secrets: sealed_secrets.to_vec(),
    }
}
