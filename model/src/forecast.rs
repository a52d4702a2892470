//! What a job would take, and when it would start, if it were submitted now. Plain data, as the views are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explanation::GangExplanation;
use crate::id::{JobKey, NodeId, TaskId, VcName};
use crate::remark::Remark;
use crate::vc::Amount;

/// What would become of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobForecast {
    /// The name that it would have.
    pub key: JobKey,
    /// Its virtual cluster.
    pub vc: VcName,
    /// In a word.
    pub outcome: ForecastOutcome,
    /// Why it would not start at once, as the end of a sentence; none if it would.
    pub reason: Option<String>,
    /// What all of its tasks ask for together.
    pub takes: Amount,
    /// How many tasks it has.
    pub tasks: u32,
    /// How many of them would have their places at once.
    pub placed: u32,
    /// The nodes of those, at most [`FORECAST_NODES_MAX`].
    pub places: Vec<NodeShare>,
    /// How many nodes that are in all.
    pub nodes: u32,
    /// Jobs that would give way to it; none in the place of one that the user who asks does not see.
    pub victims: Vec<Option<JobKey>>,
    /// How many jobs that wait in its virtual cluster would have their turn before it.
    pub ahead: u32,
    /// Its gangs that would wait, at most [`GANGS_MAX`](crate::explanation::GANGS_MAX) of them.
    pub gangs: Vec<GangExplanation>,
    /// How many of its gangs would wait in all.
    pub waiting: u32,
    /// What of the job would not be carried out, or not as it reads.
    pub warnings: Vec<Remark>,
}

/// Nodes that are told of one job at most.
pub const FORECAST_NODES_MAX: usize = 256;

/// What would become of a job, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForecastOutcome {
    /// All tasks would have their places at once.
    Starts,
    /// Some tasks would; the others would wait. Of jobs whose tasks start one by one.
    StartsInPart,
    /// All tasks would have their places as soon as other jobs have given way.
    Preempts,
    /// It would wait.
    Waits,
    /// It would be accepted. When it would start cannot be told: the leader does not know enough yet.
    Unknown,
}

/// What the job would have of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeShare {
    /// The node.
    pub node: NodeId,
    /// The tasks there.
    pub tasks: Vec<TaskId>,
    /// The indices of the devices that they would be given.
    pub devices: Vec<u32>,
}

impl JobForecast {
    /// The outcome as a sentence.
    pub fn sentence(&self) -> String {
        let reason = self.reason.as_deref().unwrap_or("waits for its turn");
        match self.outcome {
            ForecastOutcome::Starts => "It would start now.".to_owned(),
            ForecastOutcome::StartsInPart => format!(
                "{} of {} tasks would start now. The rest would wait: it {reason}.",
                self.placed, self.tasks
            ),
            ForecastOutcome::Preempts => {
                "It would start when other jobs have given way to it.".to_owned()
            }
            ForecastOutcome::Waits => format!("It would wait: it {reason}."),
            ForecastOutcome::Unknown => {
                format!("It would be accepted. When it starts is not known now: it {reason}.")
            }
        }
    }

    /// How many jobs come before it, as a sentence; none if it would not wait.
    pub fn turn(&self) -> Option<String> {
        let waits = matches!(
            self.outcome,
            ForecastOutcome::Waits | ForecastOutcome::StartsInPart
        );
        waits.then(|| match self.ahead {
            0 => "No waiting job comes before it.".to_owned(),
            1 => "1 waiting job comes before it.".to_owned(),
            ahead => format!("{ahead} waiting jobs come before it."),
        })
    }
}
