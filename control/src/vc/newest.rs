//! The jobs by when they were submitted.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::VcState;
use crate::gang::JobId;

/// The jobs there are, ended ones included, the newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct NewestJobs(BTreeSet<(Reverse<u64>, JobId)>);

impl NewestJobs {
    /// Adds a job that was submitted then, in milliseconds since the epoch.
    pub(super) fn insert(&mut self, submitted_ms: u64, id: JobId) {
        self.0.insert((Reverse(submitted_ms), id));
    }

    pub(super) fn remove(&mut self, submitted_ms: u64, id: JobId) {
        self.0.remove(&(Reverse(submitted_ms), id));
    }

    /// Those of one millisecond are in the order of acceptance.
    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.0.iter().map(|(_, id)| *id)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl VcState {
    /// Notes the names of all jobs and when they were submitted, as after a restart.
    pub(super) fn note_jobs(&mut self) {
        let open = self.jobs.iter().map(|(id, job)| {
            let accepted = &job.accepted;
            (*id, &accepted.key, accepted.submitted_ms)
        });
        let finished = self.finished.iter().map(|(id, job)| {
            let summary = &job.summary;
            (*id, &summary.key, summary.submitted)
        });
        for (id, key, submitted_ms) in open.chain(finished) {
            self.index.names.insert(key, id);
            self.index.newest.insert(submitted_ms, id);
        }
    }
}
