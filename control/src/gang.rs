//! What is placed and started as one: names for gangs, their attempts and rounds.

use std::fmt;

use muster_model::id::{AttemptUid, TaskId};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A job within its virtual cluster: the log index at which it was accepted. Never used again,
/// so a new job of an old name is another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// Tasks that start together or not at all: a whole job, or one task of a job without gang
/// allocation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GangId {
    /// The job.
    pub job: JobId,
    /// Its one task; `None` for all tasks of the job.
    pub task: Option<TaskId>,
}

/// Which attempt of a gang. Later attempts compare greater.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct AttemptNo {
    /// The job's attempt, from 0.
    pub job: u32,
    /// The task's attempt within it, from 0; always 0 for a gang of all tasks.
    pub task: u32,
}

/// One try to start one attempt of a gang. Every order and every entry on a gang names one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GangRun {
    /// The gang.
    pub gang: GangId,
    /// Its attempt.
    pub attempt: AttemptNo,
    /// Counts the tries of this attempt before its Go, from 0.
    pub round: u32,
}

impl fmt::Display for GangRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {}", self.gang.job.0)?;
        if let Some(task) = &self.gang.task {
            write!(f, " task {task}")?;
        }
        let AttemptNo { job, task } = self.attempt;
        write!(f, " attempt {job}.{task} round {}", self.round)
    }
}

/// The name of one task attempt in one round, in the shape of a UUID, as OpenPAI's pods have.
/// `job_uid` is the random uid the job was accepted with, so names never repeat between jobs.
pub fn attempt_uid(job_uid: &str, run: &GangRun, task: &TaskId) -> AttemptUid {
    let digest = digest(&format!(
        "{job_uid}/{}/{}/{}/{task}",
        run.attempt.job, run.attempt.task, run.round
    ));
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    AttemptUid::from_bytes(bytes)
}

/// A uid for something of a job that is no task: an attempt, an event.
pub(crate) fn named_uid(job_uid: &str, what: &str) -> AttemptUid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest(&format!("{job_uid}/{what}"))[..16]);
    AttemptUid::from_bytes(bytes)
}

/// A number that looks random, but is the same on every replica.
pub(crate) fn hash(text: &str) -> u64 {
    let digest = digest(text);
    digest[..8]
        .iter()
        .fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}
