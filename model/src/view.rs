//! What users are shown. Plain data: the gateway turns it into OpenPAI's shapes, the command
//! line into tables. All times are milliseconds since the epoch.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::Verdict;
use crate::id::{AttemptUid, JobKey, NodeId, TaskId, VcName};
use crate::remark::Remark;
use crate::state::{ExecutionType, JobState, PriorityClass, SubState};
use crate::task_use::TaskUsed;

/// How often something was started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Retries {
    /// In all.
    pub total: u32,
    /// Those counted against the user's own limit. What the platform caused never is.
    pub accountable: u32,
}

/// How the last attempt of a job ended, while the job goes on with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastEnd {
    /// The task, where tasks are tried again alone; none: all of the job was.
    pub task: Option<TaskId>,
    /// Which attempt, counted from 0: of the job, or of the task within the job's attempt.
    pub attempt: u32,
    /// When it ended.
    pub ended: u64,
    /// Its exit code.
    pub code: i32,
    /// The code in words.
    pub phrase: String,
    /// What ended it, in a sentence or two.
    pub reason: String,
    /// What to do about it.
    pub solution: Vec<String>,
    /// So many attempts in a row, this one included, ended for this reason.
    pub in_a_row: u32,
    /// Whether the retry after it counts against the user's own limit.
    pub is_charged: bool,
    /// So many such attempts in a row end the job; none: there is no such limit.
    pub tries_max: Option<u32>,
    /// When the next attempt may start, if it has not been placed yet.
    pub next_at: Option<u64>,
}

/// One job in a listing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobSummary {
    /// Whose, and its name.
    pub key: JobKey,
    /// Detailed state.
    pub sub_state: SubState,
    /// The exit code once one is decided.
    pub exit_code: Option<i32>,
    /// What the user wants of it.
    pub execution_type: ExecutionType,
    /// Its tags, in the order they were set.
    pub tags: Vec<String>,
    /// Attempts after the first.
    pub retries: Retries,
    /// When the next attempt may start, if it waits for that.
    pub retry_at: Option<u64>,
    /// How its last attempt ended, if it has not ended and was tried again.
    pub last_end: Option<Box<LastEnd>>,
    /// When it was accepted.
    pub submitted: u64,
    /// When its first attempt was placed.
    pub created: Option<u64>,
    /// When its first user command ran.
    pub launched: Option<u64>,
    /// When the first user command of its latest attempt ran; none while that waits.
    pub attempt_launched: Option<u64>,
    /// When it ended.
    pub completed: Option<u64>,
    /// Its virtual cluster.
    pub vc: VcName,
    /// GPUs over all tasks.
    pub gpus: u32,
    /// GPUs that its tasks keep from others at the moment and do not use: of cells that they were given for
    /// cores or memory.
    pub gpus_idle: u32,
    /// Tasks over all roles.
    pub tasks: u32,
    /// Those of its latest attempt that have failed for good.
    pub tasks_failed: u32,
    /// Task roles.
    pub roles: u32,
    /// Its priority class, if it names one.
    pub priority: Option<PriorityClass>,
    /// Why it waits, if it does, as the end of a sentence: `needs 4 GPUs on one node; 2 are
    /// free on n1`.
    pub waiting_for: Option<String>,
}

impl JobSummary {
    /// The state users see.
    pub fn state(&self) -> JobState {
        JobState::of(self.sub_state, self.exit_code)
    }

    /// A word for how far it is, another one as soon as it has got on: `AttemptRunning.0`.
    pub fn mark(&self) -> String {
        format!("{:?}.{}", self.sub_state, self.retries.total)
    }
}

/// Which task decided an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trigger {
    /// The completion policy's own words.
    pub message: String,
    /// The task, if it was one.
    pub task: Option<TaskId>,
}

/// One attempt of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Counts from 0.
    pub id: u32,
    /// Its uid, once placed.
    pub uid: Option<AttemptUid>,
    /// Detailed state.
    pub sub_state: SubState,
    /// When it was placed.
    pub created: Option<u64>,
    /// When its first user command ran.
    pub launched: Option<u64>,
    /// When it ended.
    pub completed: Option<u64>,
    /// How it ended.
    pub verdict: Option<Verdict>,
    /// What decided its end.
    pub trigger: Option<Trigger>,
}

/// A task that has failed, and whose container is kept so that a person can look into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskHold {
    /// Until then at most, milliseconds since the epoch, by the clock of its node.
    pub until: u64,
    /// The code that it will have ended with.
    pub code: i32,
    /// The code in words.
    pub phrase: String,
    /// Why it failed, a sentence or two.
    pub reason: String,
}

/// One attempt of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAttemptView {
    /// Counts from 0 within the job attempt.
    pub id: u32,
    /// Its uid, once placed.
    pub uid: Option<AttemptUid>,
    /// Detailed state.
    pub sub_state: SubState,
    /// When it was placed.
    pub created: Option<u64>,
    /// When its user command ran.
    pub launched: Option<u64>,
    /// When it ended.
    pub completed: Option<u64>,
    /// The node, once placed.
    pub node: Option<NodeId>,
    /// Address of that node.
    pub address: Option<String>,
    /// Its ports by label.
    pub ports: Vec<(String, Vec<u16>)>,
    /// Indices of its devices.
    pub devices: Vec<u32>,
    /// How it ended.
    pub verdict: Option<Verdict>,
    /// The task has failed, and its container is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_hold: Option<TaskHold>,
}

/// One task of a job attempt, with every attempt of it, newest last and never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskView {
    /// Which.
    pub id: TaskId,
    /// Its uid within the job attempt.
    pub uid: String,
    /// Whether its role asks for cells: of a type, a pinned one, or in an affinity group.
    pub by_cells: bool,
    /// The command that logs in to it; while it runs, and only with the runtime plugin `ssh`.
    #[serde(default)]
    pub ssh: Option<String>,
    /// Detailed state.
    pub sub_state: SubState,
    /// Attempts after the first.
    pub retries: Retries,
    /// When it was first placed.
    pub created: Option<u64>,
    /// When its first user command ran.
    pub launched: Option<u64>,
    /// When it ended for good.
    pub completed: Option<u64>,
    /// Its attempts, oldest first.
    pub attempts: Vec<TaskAttemptView>,
}

/// A task role with its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoleView {
    /// Its name.
    pub name: String,
    /// Its tasks by index.
    pub tasks: Vec<TaskView>,
}

/// A job in full, seen at one of its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDetail {
    /// The job, as its latest attempt stands.
    pub summary: JobSummary,
    /// The attempt that was asked for; `None` before the first was placed.
    pub attempt: Option<AttemptView>,
    /// Roles in the order the user wrote them; empty before the first placement.
    pub roles: Vec<RoleView>,
    /// What becomes of the job when a machine falls silent; none once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionView>,
    /// How long an attempt may run; absent if it has no limit, or that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_limit: Option<RunLimitView>,
    /// What was accepted of the job and is not carried out, or not as it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Remark>,
}

impl JobDetail {
    /// Every task, role by role.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskView> {
        self.roles.iter().flat_map(|role| &role.tasks)
    }

    /// The tasks that have failed, and whose containers are kept.
    pub fn held(&self) -> impl Iterator<Item = (&TaskView, &TaskHold)> {
        self.tasks().filter_map(|task| {
            let hold = task.attempts.last()?.on_hold.as_ref()?;
            Some((task, hold))
        })
    }

    /// What those attempts of its tasks used in all that have ended, within the job's attempt that is shown.
    pub fn used(&self) -> Option<TaskUsed> {
        let attempts = self.tasks().flat_map(|task| &task.attempts);
        let verdicts = attempts.filter_map(|attempt| attempt.verdict.as_ref());
        TaskUsed::of_all(verdicts.filter_map(|verdict| verdict.used.as_ref()))
    }
}

/// How long an attempt of a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunLimitView {
    /// Seconds from the start of its commands.
    pub seconds: u64,
    /// When it, or the first of its tasks that start alone, is ended, milliseconds since the epoch; absent if none
    /// runs.
    pub ends_at: Option<u64>,
}

/// What becomes of a job when nothing is heard any more of a machine that it runs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartitionView {
    /// As in `extras.muster.partition`: `failover_after`, `hold`, `overlap`.
    pub policy: String,
    /// For so long a machine may be silent, as the job says, if that is its policy.
    pub seconds: Option<u32>,
    /// What runs now, by its gangs.
    pub runs: Vec<RunLease>,
}

/// The run lease by which the tasks of a gang hold, if they do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunLease {
    /// The one task of the gang; none for all tasks of the job.
    pub task: Option<TaskId>,
    /// For so long a machine may be silent by the lease; none: there is no lease.
    pub seconds: Option<u32>,
    /// Why there is none, as the end of a sentence on the run.
    pub without: Option<String>,
    /// The lease on each machine.
    pub nodes: Vec<NodeLease>,
}

/// A run lease on one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeLease {
    /// The machine.
    pub node: NodeId,
    /// When its tasks are gone at the latest if it is not renewed any more, by what the leader has heard.
    /// A copy of the log does not know.
    pub ends_by: Option<u64>,
}

/// How old an answer is that could not be had from a virtual cluster's leader: since then its log may
/// have gone on without the copy that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Age {
    /// The virtual cluster.
    pub vc: VcName,
    /// So many seconds at most; none: unknown, for the copy was not compared with the leader since its agent
    /// started.
    pub seconds: Option<u64>,
}

/// An answer, and how old it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dated<T> {
    /// The answer.
    #[serde(flatten)]
    pub value: T,
    /// Its age, if it is not what the leader says now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<Age>,
}

impl<T> Dated<T> {
    /// What the leader says now.
    pub const fn now(value: T) -> Self {
        Self { value, age: None }
    }
}

/// Something worth telling about a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEvent {
    /// Names it.
    pub uid: String,
    /// The task attempt it is about.
    pub attempt_uid: Option<AttemptUid>,
    /// The task it is about.
    pub task: Option<TaskId>,
    /// A warning rather than plain news.
    pub warning: bool,
    /// One CamelCase word.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// First seen.
    pub first: u64,
    /// Last seen.
    pub last: u64,
    /// How often.
    pub count: u32,
    /// The node it happened on.
    pub node: Option<NodeId>,
}
