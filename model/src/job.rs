//! A job after validation: the protocol document with every reference resolved and every
//! default filled in. What control and placement work with.

use serde::{Deserialize, Serialize};

use crate::cluster_spec::Level;
use crate::id::{RoleName, VcName};
use crate::launch::RegistryAuth;
use crate::remark::Remark;
use crate::ssh::SshAccess;
use crate::state::PriorityClass;

/// A valid job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Its virtual cluster.
    pub vc: VcName,
    /// How often a failure that counts against the user is retried. -1: always on failure,
    /// -2: always, even on success.
    pub retry_count: i32,
    /// All tasks start together or none does. Off: each task is placed and retried alone.
    pub gang: bool,
    /// Priority class, if named; `test` if not.
    pub priority: Option<PriorityClass>,
    /// It agrees to lose its quota to a more important job, and to go on as an opportunistic one
    /// for as long as nobody needs its devices.
    pub lazy: bool,
    /// So many seconds it says that it runs at most, from 1 up. For forecasts, unless `ending` or its virtual
    /// cluster makes it a limit.
    pub max_run_s: Option<u64>,
    /// What it wants of its own end.
    pub ending: JobEnding,
    /// What becomes of it when one of its nodes falls silent.
    pub partition: Partition,
    /// Roles in the order the user wrote them; at least one.
    pub roles: Vec<RoleSpec>,
    /// What is accepted of the job and not carried out, or not as it reads. For the user.
    pub warnings: Vec<Remark>,
}

impl JobSpec {
    /// Whether it uses what is promised to somebody else, or to nobody: any virtual cluster may have it
    /// give way.
    pub fn is_opportunistic(&self) -> bool {
        self.priority == Some(PriorityClass::Oppo)
    }

    /// Tasks over all roles.
    pub fn task_count(&self) -> u32 {
        self.roles.iter().map(|role| role.instances).sum()
    }

    /// GPUs over all tasks.
    pub fn gpu_count(&self) -> u32 {
        self.roles
            .iter()
            .map(|role| role.instances.saturating_mul(role.resources.gpu))
            .sum()
    }
}

/// The longest that the container of a failed task is kept, in seconds: thirty days.
pub const HOLD_S_MAX: u32 = 30 * 24 * 3600;

/// What a job wants of its own end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnding {
    /// It is ended when it has run for `max_run_s`, whatever its virtual cluster says.
    pub is_max_run_binding: bool,
    /// For so many seconds the container of a task that has failed is kept, so that a person can look into it.
    pub hold_s: Option<u32>,
}

/// A storage as a job has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStorage {
    /// The storage's name in the cluster.
    pub name: String,
    /// Where tasks see it: an absolute path.
    pub mount_path: String,
    /// The directory of it that tasks see, relative, made if it is not there; empty for the whole. Of a storage that
    /// users have directories of their own in, it is below the user's.
    pub sub_path: String,
    /// Whether the job wants to read only.
    pub read_only: bool,
}

impl JobStorage {
    /// The whole storage where OpenPAI mounts it.
    pub fn usual(name: String) -> Self {
        Self {
            mount_path: format!("/mnt/{name}"),
            name,
            sub_path: String::new(),
            read_only: false,
        }
    }
}

/// What becomes of a job that runs on a node of which nothing is heard any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Partition {
    /// Its tasks hold by a run lease: the node ends them when nobody has renewed it for so many
    /// seconds, and the job starts anew elsewhere once that must have happened. Never two at once.
    FailoverAfter {
        /// From [`FAILOVER_S_MIN`] to [`FAILOVER_S_MAX`].
        seconds: u32,
    },
    /// It waits for the node's word, however long.
    Hold,
    /// It starts anew elsewhere at once; what may still run on the silent node is ended when the
    /// node is back.
    Overlap,
}

/// The least that a lease lasts, in seconds.
pub const FAILOVER_S_MIN: u32 = 15;
/// The most that a lease lasts, in seconds: thirty days.
pub const FAILOVER_S_MAX: u32 = 30 * 24 * 3600;
/// How long a lease lasts where the job does not say, in seconds.
pub const FAILOVER_S_DEFAULT: u32 = 300;

impl Partition {
    /// As a job names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FailoverAfter { .. } => "failover_after",
            Self::Hold => "hold",
            Self::Overlap => "overlap",
        }
    }
}

impl Default for Partition {
    fn default() -> Self {
        Self::FailoverAfter {
            seconds: FAILOVER_S_DEFAULT,
        }
    }
}

/// One task role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSpec {
    /// Its name.
    pub name: RoleName,
    /// How many tasks; at least 1.
    pub instances: u32,
    /// So many failed tasks fail the attempt; below 1: never.
    pub min_failed: i32,
    /// So many succeeded tasks complete the attempt; below 1: never.
    pub min_succeeded: i32,
    /// Retries of one task, used when gang is off.
    pub task_retry_count: i32,
    /// The image.
    pub image: String,
    /// Login for its registry. Each field may hold references such as `<% $secrets.x %>`; a
    /// password that the job wrote out is a reference too. The node resolves them with
    /// [`Secrets::render`](crate::protocol::Secrets::render).
    pub image_auth: Option<RegistryAuth>,
    /// What each task needs.
    pub resources: Resources,
    /// The type of cells to run on, `V100`; any if none.
    pub sku: Option<String>,
    /// The pinned cell to run in, by the name its virtual cluster knows it by. The same in all
    /// roles of a gang that name one.
    pub pinned: Option<String>,
    /// The affinity group that the user put it into.
    pub affinity_group: Option<String>,
    /// How near to each other its devices or tasks are to be.
    pub near: Option<NearSpec>,
    /// Size of /dev/shm in MiB, if the user named one.
    pub shm_mb: Option<u32>,
    /// Wants InfiniBand devices.
    pub infiniband: bool,
    /// The storages that its tasks have.
    pub storages: Vec<JobStorage>,
    /// Whether its tasks have an SSH server.
    pub has_ssh: bool,
    /// Who may log in to its tasks, if anybody.
    pub ssh: Option<SshAccess>,
    /// Runtime plugins' commands before the user's, in order. May hold `<% $secrets.x %>`.
    pub pre_commands: Vec<String>,
    /// The user's commands as one script, rendered but for `<% $secrets.x %>`.
    pub entrypoint: String,
    /// Runtime plugins' commands after a success, in order.
    pub post_commands: Vec<String>,
}

/// A wish for nearness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearSpec {
    /// Inside a machine: the devices of each task lie together there. Node or rack: all tasks of
    /// the role do.
    pub level: Level,
    /// It waits until that holds; else it is only tried.
    pub required: bool,
}

/// What one task needs of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// CPU in whole cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// GPUs.
    pub gpu: u32,
    /// Ports by label in the order written; `ssh` and `http` (1 each) always at the end,
    /// unless the user named them.
    pub ports: Vec<(String, u32)>,
}

/// Size of /dev/shm in MiB for a task that names none, as OpenPAI mounts it.
pub const SHM_MB_DEFAULT: u32 = 512;
