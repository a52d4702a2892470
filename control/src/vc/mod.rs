//! The state of one virtual cluster: what its log says, and nothing else.
//!
//! [`VcState::apply`] is the only way to change it. It knows no clock: times are in the entries.

mod apply;
mod archive;
pub(crate) mod attempt;
mod blame;
mod completion;
mod document;
mod ending;
mod entry;
mod gpu_time;
mod index;
pub(crate) mod job;
mod last_end;
mod names;
mod newest;
mod news;
mod own_cells;
mod query;
mod recurrence;
pub(crate) mod retry;
mod row;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use muster_model::id::{AttemptUid, JobKey, NodeId, TaskId};
use serde::{Deserialize, Serialize};

pub use crate::entry_bytes::{DecodeError, EncodeError};
pub use archive::{FINISHED_BYTES_MAX, FINISHED_HOURS_MAX, FINISHED_JOBS_MAX};
pub use attempt::TASK_ATTEMPTS_KEPT;
pub use document::JobDocument;
pub use ending::{ATTEMPTS_KEPT, ROUND_PAUSE_MAX_MS, ROUNDS_MAX};
pub use entry::{AcceptedJob, Placed, TaskEnd, VcApplied, VcEntry, VcRejection};
pub use news::EVENTS_KEPT;
pub(crate) use news::some_of;
pub use own_cells::OwnCells;
pub use query::NotFound;
pub use retry::{
    CONFLICT_PAUSE_MS, LONG_RUN_MS, TRANSIENT_AT_ONCE, TRANSIENT_FREE, TRANSIENT_PAUSE_MAX_MS,
    UNRESOLVED_PAUSE_MS, UNRESOLVED_TRIES,
};
pub use row::StateJob;

use crate::fence::Term;
use crate::gang::{GangId, GangRun, JobId};
use archive::Finished;
use attempt::AttemptGang;
use gpu_time::GpuTime;
pub(crate) use gpu_time::GpusSince;
use index::JobIndex;
use job::JobRecord;

/// Jobs that have not ended, at most.
pub const JOBS_MAX: usize = 100_000;
/// Tags of one job, at most.
pub const TAGS_MAX: usize = 64;

/// First byte of every snapshot. A changed layout takes the next number.
const VERSION: u8 = 8;

/// The state of one virtual cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VcState {
    term: Term,
    /// Each in a place of its own: a map has room for almost twice as many as are in it.
    jobs: BTreeMap<JobId, Box<JobRecord>>,
    finished: BTreeMap<JobId, Finished>,
    finished_order: VecDeque<JobId>,
    finished_bytes: usize,
    /// Hours that leaders have counted.
    hours: u64,
    own_cells: OwnCells,
    gpu_time: GpuTime,
    #[serde(skip)]
    index: JobIndex,
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VcRestoreError {
    /// Written by another release, or empty.
    #[error("snapshot version {0:?} is not known")]
    Version(Option<u8>),
    /// The bytes are no snapshot.
    #[error("the snapshot cannot be read")]
    Body(#[source] postcard::Error),
}

/// A gang as it stands now.
#[derive(Clone, Debug)]
pub(crate) struct Current<'a> {
    pub(crate) job: &'a JobRecord,
    pub(crate) gang: &'a AttemptGang,
    pub(crate) run: GangRun,
}

impl Current<'_> {
    /// The round that may follow this one before its Go; none after the last.
    pub(crate) fn next_round(&self) -> Option<GangRun> {
        let round = self.run.round + 1;
        (round < ROUNDS_MAX).then(|| GangRun {
            round,
            ..self.run.clone()
        })
    }

    /// Whether the user's commands may have been started in this run.
    pub(crate) fn has_started(&self) -> bool {
        let mut tasks = self.job.attempt.tasks_of(self.gang);
        tasks.any(|task| task.last().launched.is_some())
    }
}

impl VcState {
    /// The newest term whose leader's entry was applied.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The whole state as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        // Encoding plain data into a Vec cannot fail; an empty snapshot is refused at restore.
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// The state that a snapshot holds.
    ///
    /// # Errors
    /// When the bytes are not a snapshot this release can read.
    pub fn restore(snapshot: &[u8]) -> Result<Self, VcRestoreError> {
        let [VERSION, body @ ..] = snapshot else {
            return Err(VcRestoreError::Version(snapshot.first().copied()));
        };
        let mut state: Self = postcard::from_bytes(body).map_err(VcRestoreError::Body)?;
        for job in state.jobs.values() {
            state.index.add(job);
        }
        state.note_jobs();
        Ok(state)
    }

    /// The same without the jobs that have ended, and without what only people look at: to try something on.
    pub(crate) fn sketch(&self) -> Self {
        let jobs = self.jobs.iter();
        Self {
            term: self.term,
            jobs: jobs
                .map(|(id, job)| (*id, Box::new(job.sketch())))
                .collect(),
            own_cells: self.own_cells.clone(),
            gpu_time: self.gpu_time.clone(),
            index: self.index.clone(),
            ..Self::default()
        }
    }

    /// The tasks that the node may be running, by job.
    pub fn tasks_on(&self, node: &NodeId) -> Vec<(JobKey, TaskId)> {
        let live = self.live().flat_map(|current| {
            let tasks = current.job.attempt.tasks_of(current.gang);
            let on_node = tasks.filter(|task| task.live().is_some_and(|it| it.node == *node));
            let key = current.job.accepted.key.clone();
            on_node.map(move |task| (key.clone(), task.id.clone()))
        });
        live.collect()
    }

    /// Gangs that nodes may hold something for.
    pub(crate) fn live(&self) -> impl Iterator<Item = Current<'_>> {
        self.index.live.iter().filter_map(|gang| self.current(gang))
    }

    /// Gangs that wait, in the order of the queue, those whose time has not come included.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Current<'_>> {
        self.index.waiting.iter().filter_map(|turn| {
            let job = self.jobs.get(&turn.job)?;
            let gang = job.attempt.gangs.get(turn.gang)?;
            let run = job.run_of(gang.task.as_ref())?;
            Some(Current { job, gang, run })
        })
    }

    pub(crate) fn current(&self, gang: &GangId) -> Option<Current<'_>> {
        let job = self.jobs.get(&gang.job)?;
        Some(Current {
            job,
            gang: job.attempt.gang(gang.task.as_ref())?,
            run: job.run_of(gang.task.as_ref())?,
        })
    }

    /// The gangs of a job.
    pub(crate) fn gangs_of(&self, id: JobId) -> impl Iterator<Item = Current<'_>> {
        let job = self.jobs.get(&id);
        job.into_iter().flat_map(|job| {
            job.attempt.gangs.iter().filter_map(|gang| {
                Some(Current {
                    job,
                    gang,
                    run: job.run_of(gang.task.as_ref())?,
                })
            })
        })
    }

    /// Whether this task attempt of this run is placed and not known to have ended.
    pub(crate) fn is_live(&self, run: &GangRun, task: &TaskId, uid: &AttemptUid) -> bool {
        self.current(&run.gang).is_some_and(|current| {
            current.run == *run && current.job.attempt.live_task(current.gang, task, uid)
        })
    }
}
