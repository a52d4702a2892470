//! A job of the state in a list, read where it lies.

use muster_model::id::{JobKey, VcName};
use muster_model::row::JobRow;
use muster_model::state::{PriorityClass, State};
use muster_model::view::JobSummary;

use super::VcState;
use super::job::Job;
use super::query::{exit_code, sub_state, summary};

/// A job of the state, ended or not.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a>(Of<'a>);

#[derive(Clone, Copy, Debug)]
enum Of<'a> {
    Open(&'a Job),
    Finished(&'a JobSummary),
}

impl VcState {
    /// Every job, those that ended included, by the order of acceptance within each.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let finished = self.finished.values();
        let finished = finished.map(|job| Row(Of::Finished(&job.summary)));
        finished.chain(self.jobs.values().map(|job| Row(Of::Open(job))))
    }
}

impl Row<'_> {
    /// What is shown of it.
    pub fn summary(&self) -> JobSummary {
        match self.0 {
            Of::Open(job) => summary(job),
            Of::Finished(summary) => summary.clone(),
        }
    }
}

impl JobRow for Row<'_> {
    fn key(&self) -> &JobKey {
        match self.0 {
            Of::Open(job) => &job.accepted.key,
            Of::Finished(summary) => &summary.key,
        }
    }

    fn vc(&self) -> &VcName {
        match self.0 {
            Of::Open(job) => &job.accepted.spec.vc,
            Of::Finished(summary) => &summary.vc,
        }
    }

    fn tags(&self) -> &[String] {
        match self.0 {
            Of::Open(job) => &job.tags,
            Of::Finished(summary) => &summary.tags,
        }
    }

    fn state(&self) -> State {
        match self.0 {
            Of::Open(job) => State::of(sub_state(job), exit_code(job)),
            Of::Finished(summary) => summary.state(),
        }
    }

    fn priority(&self) -> Option<PriorityClass> {
        match self.0 {
            Of::Open(job) => job.accepted.spec.priority,
            Of::Finished(summary) => summary.priority,
        }
    }

    fn submitted(&self) -> u64 {
        match self.0 {
            Of::Open(job) => job.accepted.submitted_ms,
            Of::Finished(summary) => summary.submitted,
        }
    }

    fn completed(&self) -> Option<u64> {
        match self.0 {
            Of::Open(job) => job.completed,
            Of::Finished(summary) => summary.completed,
        }
    }

    fn retries(&self) -> u32 {
        match self.0 {
            Of::Open(job) => job.retries.total,
            Of::Finished(summary) => summary.retries.total,
        }
    }

    fn tasks(&self) -> u32 {
        match self.0 {
            Of::Open(job) => job.accepted.spec.task_count(),
            Of::Finished(summary) => summary.tasks,
        }
    }

    fn gpus(&self) -> u32 {
        match self.0 {
            Of::Open(job) => job.accepted.spec.gpu_count(),
            Of::Finished(summary) => summary.gpus,
        }
    }
}
