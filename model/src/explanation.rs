//! Why a job waits, in full. Plain data, as the views are.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobKey, NodeId, TaskId};
use crate::pull::Pull;
use crate::state::JobState;
use crate::view::LastEnd;

/// Why a job waits: its gangs that do, each with what it lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The job.
    pub key: JobKey,
    /// How it stands.
    pub state: JobState,
    /// Why it waits, or does not get on, as the end of a sentence; none if it does neither.
    pub reason: Option<String>,
    /// Its gangs that wait, at most [`GANGS_MAX`] of them.
    pub gangs: Vec<GangExplanation>,
    /// How many of its gangs wait in all.
    pub waiting: u32,
    /// The jobs that have their turn before its first gang that waits; none if no gang waits for a turn.
    pub ahead: Option<JobsAhead>,
    /// How its last attempt ended, if it was tried again.
    pub last_end: Option<Box<LastEnd>>,
    /// GPUs that its tasks keep from others and do not use: of cells that they were given for cores or memory.
    pub gpus_idle: u32,
    /// The machines of gangs that have their places and have not started, those first that are not ready; at
    /// most [`LAUNCHES_MAX`].
    pub launches: Vec<Launch>,
}

/// The jobs of a queue that have their turn before another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobsAhead {
    /// How many.
    pub jobs: u32,
    /// Whose turn is next; none if there is no job ahead, or the user who asks does not see it.
    pub next: Option<JobKey>,
}

impl JobsAhead {
    /// `3 jobs are ahead of it in its queue, the next: lena~a.`
    pub fn sentence(&self) -> String {
        let count = match self.jobs {
            0 => return "No job is ahead of it in its queue.".to_owned(),
            1 => "1 job is".to_owned(),
            jobs => format!("{jobs} jobs are"),
        };
        let next = self.next.as_ref().map(|next| format!(", the next: {next}"));
        format!(
            "{count} ahead of it in its queue{}.",
            next.unwrap_or_default()
        )
    }
}

/// Machines that are told of one job at most.
pub const LAUNCHES_MAX: usize = 64;

/// A machine of a gang that starts when all of its machines are ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Launch {
    /// Which.
    pub node: NodeId,
    /// Whether all of the gang's tasks there are ready.
    pub is_ready: bool,
    /// The images of those tasks.
    pub images: BTreeSet<String>,
    /// Which of these images are on their way there, and how far.
    pub pulls: Vec<Pull>,
    /// Whether the machine was asked that and answered.
    pub is_heard: bool,
}

/// Gangs of one job that are explained at most.
pub const GANGS_MAX: usize = 20;

/// Why one gang waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GangExplanation {
    /// Its only task; none for all tasks of the job.
    pub task: Option<TaskId>,
    /// What blocks it, one word of lower case: `quota`, `machines`, `fragmented`.
    pub constraint: String,
    /// The same as the end of a sentence.
    pub reason: String,
    /// What still has to come free, where that is least.
    pub lacks: Vec<Lack>,
    /// Who holds exactly that.
    pub holders: Vec<CellHolder>,
    /// When it can start at the earliest, if those who hold it end when they said.
    pub earliest: Earliest,
    /// Jobs that could go on elsewhere right now so that it fits. Nobody is moved by this.
    pub moves: Vec<Move>,
}

/// Cells that are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lack {
    /// Where.
    pub node: NodeId,
    /// What: the type of the cells, or a resource of the machine.
    pub what: String,
    /// How much it would take there.
    pub wanted: u64,
    /// How much of that still has to come free.
    pub missing: u64,
}

/// Who holds what is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellHolder {
    /// The job; none: one that the user who asks does not see.
    pub job: Option<JobKey>,
    /// How many of the missing leaf cells it holds.
    pub leaves: u32,
    /// When it ends at the latest by its own word, milliseconds since the epoch.
    pub ends_by: Option<u64>,
}

/// The earliest start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "when", content = "at_ms")]
pub enum Earliest {
    /// It could start now; only its turn is missing.
    Now,
    /// Then, milliseconds since the epoch, if nobody comes before it.
    At(u64),
    /// Nobody who is in the way said when it ends.
    Unknown,
    /// Not even when everything has ended.
    Never,
}

/// A job that could go on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Move {
    /// The job; none: one that the user who asks does not see.
    pub job: Option<JobKey>,
    /// How many leaf cells it has.
    pub leaves: u32,
    /// The nodes it would go to.
    pub to: Vec<NodeId>,
}
