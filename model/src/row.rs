//! A job in a list, read where it lies.

use crate::id::{JobKey, VcName};
use crate::state::{JobState, PriorityClass};
use crate::view::JobSummary;

/// What lists are filtered and sorted by, without a copy of it. Of a long list a page is shown: a summary is
/// made only of the jobs on that page.
pub trait JobRow {
    /// Whose, and its name.
    fn key(&self) -> &JobKey;
    /// Its virtual cluster.
    fn vc(&self) -> &VcName;
    /// Its tags.
    fn tags(&self) -> &[String];
    /// The state users see.
    fn state(&self) -> JobState;
    /// Its priority class, if it names one.
    fn priority(&self) -> Option<PriorityClass>;
    /// When it was accepted, milliseconds since the epoch.
    fn submitted(&self) -> u64;
    /// When it ended.
    fn completed(&self) -> Option<u64>;
    /// Attempts after the first.
    fn retries(&self) -> u32;
    /// Tasks over all roles.
    fn tasks(&self) -> u32;
    /// GPUs over all tasks.
    fn gpus(&self) -> u32;
}

impl JobRow for JobSummary {
    fn key(&self) -> &JobKey {
        &self.key
    }

    fn vc(&self) -> &VcName {
        &self.vc
    }

    fn tags(&self) -> &[String] {
        &self.tags
    }

    fn state(&self) -> JobState {
        Self::state(self)
    }

    fn priority(&self) -> Option<PriorityClass> {
        self.priority
    }

    fn submitted(&self) -> u64 {
        self.submitted
    }

    fn completed(&self) -> Option<u64> {
        self.completed
    }

    fn retries(&self) -> u32 {
        self.retries.total
    }

    fn tasks(&self) -> u32 {
        self.tasks
    }

    fn gpus(&self) -> u32 {
        self.gpus
    }
}
