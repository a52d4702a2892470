//! What the processes of a job's tasks do at one moment, so that a user sees why a job hangs.
//!
//! A node reads its processes and says what it read ([`TakenStacks`]). [`JobStacks::of`] puts the words of all nodes
//! together: which tasks are in the same place, and which one is not.

mod group;
mod place;
mod select;
mod sentence;

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{AttemptUid, JobKey, NodeId, RoleName, TaskId};
use crate::rule_test::UnheardNode;

/// Processes of a task that are read.
pub const PROCESSES_MAX: usize = 64;
/// Threads of a process that are told.
pub const THREADS_MAX: usize = 64;
/// Frames of a thread that are told, the innermost ones.
pub const FRAMES_MAX: usize = 64;
/// Bytes of a name, a command line or a path that are told.
pub const TEXT_BYTES_MAX: usize = 256;
/// A task without a line of output for this time, in seconds, is called silent.
pub const SILENT_S: u64 = 600;
/// Devices are called idle up to this utilization, in percent.
pub const IDLE_PERCENT: u8 = 1;

/// One call of a function in a Python program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackFrame {
    /// The function.
    pub function: String,
    /// Its file: of packages the path in them, of others the whole path.
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: u32,
}

/// What a thread does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadStack {
    /// Its number, as programs in the container see it.
    pub tid: u32,
    /// What it is called.
    pub name: String,
    /// The kernel's letter: `R` runs, `S` sleeps, `D` waits for a device or a file server and cannot be ended, `T` is
    /// stopped, `Z` has ended. `?` where it is not known.
    pub state: String,
    /// The system call that it is in.
    pub syscall: Option<String>,
    /// The function of the kernel that it waits in.
    pub wchan: Option<String>,
    /// The kernel's stack, innermost first.
    pub kernel: Vec<String>,
    /// The Python stack, innermost first; empty if it is no thread of Python, or that is not known.
    pub frames: Vec<StackFrame>,
}

/// What a process does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessStack {
    /// Its number in the container.
    pub pid: u32,
    /// Its number on the node.
    pub host_pid: u32,
    /// The number of its parent on the node.
    pub parent: u32,
    /// What the kernel calls it.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// CPU time so far, milliseconds.
    pub cpu_ms: u64,
    /// Its rank in a parallel program, as its environment says: `RANK` or the variable of MPI or Slurm.
    pub rank: Option<u32>,
    /// Whether it runs Python.
    pub is_python: bool,
    /// The version of Python, where its stack was read.
    pub python: Option<String>,
    /// Why its Python stack is not told, if so.
    pub problem: Option<String>,
    /// Its threads, the main one first.
    pub threads: Vec<ThreadStack>,
    /// Threads for which there was no room, or that were not asked for.
    pub threads_left_out: u32,
}

/// What an attempt of a task does, as its node says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakenStacks {
    /// When it was looked at, milliseconds since the epoch by the clock of the node.
    pub taken_ms: u64,
    /// Seconds since its last output; none if it has written nothing.
    pub silent_s: Option<u64>,
    /// Percent of the last minutes in which its devices were busy, on average; none if it has none, or they are not
    /// sampled.
    pub devices_busy: Option<u8>,
    /// Its processes.
    pub processes: Vec<ProcessStack>,
    /// Processes for which there was no room.
    pub processes_left_out: u32,
    /// Why they are not told, or not all, if so.
    pub problem: Option<String>,
}

/// What a node is asked about its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StacksWish {
    /// Of which attempts.
    pub uids: Vec<AttemptUid>,
    /// All threads are to be told; else the main one and those of Python.
    pub all_threads: bool,
    /// Bytes that may be told of a task.
    pub task_bytes_max: u64,
}

/// What a user asks about the tasks of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StacksFilter {
    /// Only tasks of this role.
    pub role: Option<RoleName>,
    /// Only tasks with this index.
    pub index: Option<u32>,
    /// All threads are to be told; else the main one and those of Python.
    pub all_threads: bool,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskStacks {
    /// The task.
    pub task: TaskId,
    /// The node that it runs on.
    pub node: NodeId,
    /// What its node says.
    #[serde(flatten)]
    pub taken: TakenStacks,
}

/// Processes of a job that are in the same place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackGroup {
    /// Who.
    pub members: Vec<StackMember>,
    /// Whether most of the others are elsewhere.
    pub is_odd: bool,
    /// Where they are, as the end of a sentence: `wait in all_reduce (torch/distributed/distributed_c10d.py)`.
    pub place: String,
    /// The stack of the first of them, innermost first.
    pub stack: Vec<String>,
}

/// A process that is compared with others: the one that does a task's work, or one of several ranks in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackMember {
    /// The task.
    pub task: TaskId,
    /// The process, by its number in the container.
    pub pid: u32,
    /// Its rank, if it is known.
    pub rank: Option<u32>,
    /// Whether the task has others that are compared.
    pub is_one_of_many: bool,
}

/// What the tasks of a job do at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobStacks {
    /// The job.
    pub job: JobKey,
    /// Its attempt.
    pub attempt: u32,
    /// What is to be seen, in sentences: first who is where.
    pub summary: Vec<String>,
    /// Who is in the same place, the largest group first.
    pub groups: Vec<StackGroup>,
    /// Each task that was asked for and whose node answered.
    pub tasks: Vec<TaskStacks>,
    /// Nodes that did not answer.
    pub unheard: Vec<UnheardNode>,
}
