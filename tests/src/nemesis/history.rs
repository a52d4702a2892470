//! What clients asked and were told during a run, and what was found at its end. Pure data: the
//! checker needs nothing else.

use std::collections::BTreeMap;

use muster_model::state::JobState;
use serde::Serialize;

/// A moment, in microseconds since the run began, by the clock of whoever made the history.
pub type Moment = u64;

/// The number of a submission. It is written into the job, so it is known whose record is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Mark(pub u32);

/// Everything that the checker looks at.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientHistory {
    /// What was submitted, by mark.
    pub orders: BTreeMap<Mark, AskedJob>,
    /// What was asked, in the order in which the answers came.
    pub operations: Vec<Operation>,
    /// What tasks said themselves.
    pub runs: Vec<CommandRun>,
    /// What was found when everything was healed.
    pub ending: FinalState,
}

/// What a submission asks for, as far as its end depends on that.
#[derive(Clone, Debug, Serialize)]
pub struct AskedJob {
    /// The job's name.
    pub job: String,
    /// What each of its tasks ends with.
    pub code: i32,
    /// How many tasks.
    pub tasks: u32,
    /// Whether its run lease outlasts every fault, so that none of them may end what runs.
    pub outlasts: bool,
    /// Whether it may have to give way to a job with a better claim.
    pub gives_way: bool,
}

/// One question of a client. It took effect, if at all, between the two moments; or later, if no
/// answer came.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// When it was sent.
    pub begun: Moment,
    /// When it was answered, or given up.
    pub ended: Moment,
    /// The number of the node that was asked.
    pub node: usize,
    /// What was asked, and the answer.
    pub deed: Deed,
}

/// What was asked, and the answer.
#[derive(Clone, Debug, Serialize)]
pub enum Deed {
    /// A job was submitted.
    Submit {
        /// Which.
        mark: Mark,
        /// Whether it was accepted.
        answer: ClientAnswer<()>,
    },
    /// A job was to be stopped.
    Stop {
        /// Its name.
        job: String,
        /// Whether that was accepted.
        answer: ClientAnswer<()>,
    },
    /// One job was looked at.
    Look {
        /// Its name.
        job: String,
        /// Nothing: there is no such job.
        answer: ClientAnswer<Option<JobObservation>>,
    },
    /// All jobs were listed.
    List {
        /// By name.
        answer: ClientAnswer<BTreeMap<String, JobObservation>>,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ClientAnswer<T> {
    /// It was done, or told.
    Told(T),
    /// It was not done, and never will be.
    Refused {
        /// HTTP's status.
        status: u16,
        /// Why.
        why: String,
    },
    /// It may have been done, or may yet be: why nothing is known.
    Unknown(String),
}

impl<T> ClientAnswer<T> {
    /// What was told.
    pub const fn told(&self) -> Option<&T> {
        match self {
            Self::Told(told) => Some(told),
            Self::Refused { .. } | Self::Unknown(_) => None,
        }
    }

    /// Whether it was not done, and never will be.
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

/// A job as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JobObservation {
    /// Its state.
    pub state: JobState,
    /// How often it was started again.
    pub attempt: u32,
    /// When it was accepted, in milliseconds since the epoch by the clock of whoever took it: of
    /// two records under one name these differ.
    pub submitted_ms: u64,
}

/// One task's commands, as they told themselves. Lines may be missing: a full disk keeps none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandRun {
    /// The submission.
    pub mark: Mark,
    /// The attempt of the job, from 0.
    pub attempt: u32,
    /// The task's index.
    pub index: u32,
    /// The number of the node.
    pub node: usize,
    /// The devices it was given.
    pub devices: Vec<u32>,
    /// When it was first heard of, in hundredths of a second since the machine was booted.
    pub first_cs: u64,
    /// When it was last heard of.
    pub last_cs: u64,
    /// What its commands ended with, if they came to their end.
    pub code: Option<i32>,
    /// How often its commands began. More than once is wrong; never means that the line is missing.
    pub begun: u32,
}

/// What was found when everything was healed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FinalState {
    /// What each node lists, by its number.
    pub lists: BTreeMap<usize, BTreeMap<String, JobObservation>>,
    /// Every job that was found, by name.
    pub records: BTreeMap<String, FoundRecord>,
    /// What could not be done or found out in time, as sentences.
    pub trouble: Vec<String>,
}

/// The record of a job.
#[derive(Clone, Debug, Serialize)]
pub struct FoundRecord {
    /// The submission that it is of, if it says so.
    pub mark: Option<Mark>,
    /// The job's state.
    pub state: JobState,
    /// The code that users are shown, once there is one.
    pub code: Option<i32>,
    /// Those of its attempts that are kept, by number: of a job that was begun anew often the first ones
    /// are not.
    pub attempts: BTreeMap<u32, Vec<Member>>,
}

/// A task of an attempt, as the job's record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Its index.
    pub index: u32,
    /// The number of the node it was placed on.
    pub node: Option<usize>,
    /// The devices it was given.
    pub devices: Vec<u32>,
    /// Whether that node has a directory of it: it is made before the container is.
    pub made: bool,
    /// Whether its exit is recorded.
    pub ended: bool,
    /// The status of its own commands, where that is recorded.
    pub code: Option<i32>,
    /// What its record says of its end; empty where that is not recorded.
    pub why: String,
}

impl FoundRecord {
    /// The tasks of its last attempt.
    pub fn last(&self) -> &[Member] {
        let last = self.attempts.last_key_value();
        last.map_or(&[], |(_, members)| members)
    }

    /// Whether an attempt was let go, being older than those that are kept.
    pub fn has_let_go(&self, attempt: u32) -> bool {
        let first = self.attempts.first_key_value();
        first.is_some_and(|(first, _)| attempt < *first)
    }
}

impl ClientHistory {
    /// The submissions, with who was asked and what came of it.
    pub fn submissions(
        &self,
    ) -> impl Iterator<Item = (&Operation, Mark, &AskedJob, &ClientAnswer<()>)> {
        self.operations.iter().filter_map(|operation| {
            let Deed::Submit { mark, answer } = &operation.deed else {
                return None;
            };
            let order = self.orders.get(mark)?;
            Some((operation, *mark, order, answer))
        })
    }

    /// Whether anybody asked for the job's end.
    pub fn was_to_stop(&self, name: &str) -> bool {
        let mut deeds = self.operations.iter().map(|operation| &operation.deed);
        deeds.any(|deed| matches!(deed, Deed::Stop { job, .. } if job == name))
    }

    /// Whether somebody was told that the job will be stopped.
    pub fn was_stopped(&self, name: &str) -> bool {
        let mut deeds = self.operations.iter().map(|operation| &operation.deed);
        let told = |answer: &ClientAnswer<()>| answer.told().is_some();
        deeds.any(|deed| matches!(deed, Deed::Stop { job, answer } if job == name && told(answer)))
    }

    /// Every look at a job, alone or in a list, with when and where.
    pub fn sightings<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a Operation, Option<&'a JobObservation>)> {
        let seen = move |operation: &'a Operation| match &operation.deed {
            Deed::Look { job, answer } if job == name => Some(answer.told()?.as_ref()),
            Deed::List { answer } => Some(answer.told()?.get(name)),
            _ => None,
        };
        let operations = self.operations.iter();
        operations.filter_map(move |operation| Some((operation, seen(operation)?)))
    }
}
