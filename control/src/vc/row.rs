//! A job of the state in a list, read where it lies.

use muster_model::id::{JobKey, VcName};
use muster_model::job_query::JobQuery;
use muster_model::row::JobRow;
use muster_model::sight::JobSight;
use muster_model::state::{JobState, PriorityClass};
use muster_model::view::JobSummary;

use super::VcState;
use super::job::JobRecord;
use super::query::{exit_code, sub_state, summary};
use crate::gang::JobId;

/// A job of the state, ended or not.
#[derive(Clone, Copy, Debug)]
pub struct StateJob<'a>(RowSource<'a>);

#[derive(Clone, Copy, Debug)]
enum RowSource<'a> {
    Open(&'a JobRecord),
    Finished(&'a JobSummary),
}

impl VcState {
    /// Every job, those that ended included, by the order of acceptance within each.
    pub fn rows(&self) -> impl Iterator<Item = StateJob<'_>> {
        let finished = self.finished.values();
        let finished = finished.map(|job| StateJob(RowSource::Finished(&job.summary)));
        finished.chain(self.jobs.values().map(|job| StateJob(RowSource::Open(job))))
    }

    /// The jobs that are asked for and seen, in no order, and how many the filter takes of those seen.
    pub fn asked(&self, query: &JobQuery, sight: &JobSight) -> (Vec<StateJob<'_>>, usize) {
        // All jobs of a state are of one virtual cluster.
        let is_all = |job: StateJob<'_>| {
            query.filter.takes_all_of(job.vc()) && sight.closed(job.vc()).is_none()
        };
        match query.newest() {
            Some(_) if self.newest().next().is_some_and(is_all) => {
                (query.take_newest(self.newest()), self.index.newest.len())
            }
            _ => query.take(self.rows().filter(|job| sight.shows(job))),
        }
    }

    /// The same jobs as [`rows`](Self::rows), the newest first; those of one millisecond in any order.
    fn newest(&self) -> impl Iterator<Item = StateJob<'_>> {
        self.index.newest.ids().filter_map(|id| self.row(id))
    }

    fn row(&self, id: JobId) -> Option<StateJob<'_>> {
        let open = self.jobs.get(&id).map(|job| RowSource::Open(job));
        let finished = || {
            self.finished
                .get(&id)
                .map(|it| RowSource::Finished(&it.summary))
        };
        open.or_else(finished).map(StateJob)
    }
}

impl StateJob<'_> {
    /// What is shown of it.
    pub fn summary(&self) -> JobSummary {
        match self.0 {
            RowSource::Open(job) => summary(job),
            RowSource::Finished(summary) => summary.clone(),
        }
    }
}

impl JobRow for StateJob<'_> {
    fn key(&self) -> &JobKey {
        match self.0 {
            RowSource::Open(job) => &job.accepted.key,
            RowSource::Finished(summary) => &summary.key,
        }
    }

    fn vc(&self) -> &VcName {
        match self.0 {
            RowSource::Open(job) => &job.accepted.spec.vc,
            RowSource::Finished(summary) => &summary.vc,
        }
    }

    fn tags(&self) -> &[String] {
        match self.0 {
            RowSource::Open(job) => &job.tags,
            RowSource::Finished(summary) => &summary.tags,
        }
    }

    fn state(&self) -> JobState {
        match self.0 {
            RowSource::Open(job) => JobState::of(sub_state(job), exit_code(job)),
            RowSource::Finished(summary) => summary.state(),
        }
    }

    fn priority(&self) -> Option<PriorityClass> {
        match self.0 {
            RowSource::Open(job) => job.accepted.spec.priority,
            RowSource::Finished(summary) => summary.priority,
        }
    }

    fn submitted(&self) -> u64 {
        match self.0 {
            RowSource::Open(job) => job.accepted.submitted_ms,
            RowSource::Finished(summary) => summary.submitted,
        }
    }

    fn completed(&self) -> Option<u64> {
        match self.0 {
            RowSource::Open(job) => job.completed,
            RowSource::Finished(summary) => summary.completed,
        }
    }

    fn retries(&self) -> u32 {
        match self.0 {
            RowSource::Open(job) => job.retries.total,
            RowSource::Finished(summary) => summary.retries.total,
        }
    }

    fn tasks(&self) -> u32 {
        match self.0 {
            RowSource::Open(job) => job.accepted.spec.task_count(),
            RowSource::Finished(summary) => summary.tasks,
        }
    }

    fn gpus(&self) -> u32 {
        match self.0 {
            RowSource::Open(job) => job.accepted.spec.gpu_count(),
            RowSource::Finished(summary) => summary.gpus,
        }
    }
}
