//! Which jobs of a list are asked for.

use serde::{Deserialize, Serialize};

use crate::id::VcName;
use crate::job_order::JobOrder;
use crate::row::JobRow;
use crate::state::{JobState, PriorityClass};

/// Which jobs to list. Empty lists mean any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobFilter {
    /// Of these users.
    pub users: Vec<String>,
    /// Of these virtual clusters.
    pub vcs: Vec<String>,
    /// In one of these states.
    pub states: Vec<JobState>,
    /// With one of these priorities; `None` is no priority named.
    pub priorities: Vec<Option<PriorityClass>>,
    /// Part of the user's, the job's or the virtual cluster's name.
    pub keyword: Option<String>,
    /// With any of these tags.
    pub tags_any: Vec<String>,
    /// Without any of these tags.
    pub tags_none: Vec<String>,
}

impl JobFilter {
    /// Whether every job of this virtual cluster is to be listed.
    pub fn takes_all_of(&self, vc: &VcName) -> bool {
        let Self {
            users,
            vcs,
            states,
            priorities,
            keyword,
            tags_any,
            tags_none,
        } = self;
        any_or_contains(vcs, vc.as_str())
            && users.is_empty()
            && states.is_empty()
            && priorities.is_empty()
            && keyword.is_none()
            && tags_any.is_empty()
            && tags_none.is_empty()
    }

    /// Whether a job is to be listed.
    pub fn matches(&self, job: &impl JobRow) -> bool {
        let user = job.key().user.as_str();
        let name = job.key().name.as_str();
        let vc = job.vc().as_str();
        let tagged = |tags: &[String]| tags.iter().any(|tag| job.tags().contains(tag));
        any_or_contains(&self.users, user)
            && any_or_contains(&self.vcs, vc)
            && (self.states.is_empty() || self.states.contains(&job.state()))
            && (self.priorities.is_empty() || self.priorities.contains(&job.priority()))
            && self
                .keyword
                .as_deref()
                .is_none_or(|word| [user, name, vc].iter().any(|text| text.contains(word)))
            && (self.tags_any.is_empty() || tagged(&self.tags_any))
            && !tagged(&self.tags_none)
    }
}

/// Which jobs are asked for. A long list is not sent for a page of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobQuery {
    /// Those that this takes.
    pub filter: JobFilter,
    /// The first of them; none for all.
    pub first: Option<First>,
    /// Whether to tell why each job waits, which takes about as long as the rest of a list.
    pub reasons: bool,
}

/// The first rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct First {
    /// Sorted so.
    pub order: JobOrder,
    /// How many.
    pub count: usize,
}

impl JobQuery {
    /// The jobs that are asked for, in no order, and how many the filter takes.
    pub fn take<R: JobRow>(&self, jobs: impl Iterator<Item = R>) -> (Vec<R>, usize) {
        let (mut taken, mut total) = (Vec::new(), 0);
        for job in jobs.filter(|job| self.filter.matches(job)) {
            total += 1;
            taken.push(job);
            // Each cut throws half of them away, so that a job costs the same however many there are.
            let is_long = |first: &First| taken.len() >= first.count.saturating_mul(2).max(CUT_MIN);
            if self.first.as_ref().is_some_and(is_long) {
                self.cut(&mut taken);
            }
        }
        self.cut(&mut taken);
        (taken, total)
    }

    /// How many of the newest jobs are asked for; none if another order is asked for, or all jobs.
    pub fn newest(&self) -> Option<usize> {
        let First { order, count } = self.first?;
        (order == JobOrder::default()).then_some(count)
    }

    /// The jobs that are asked for, in no order, of a virtual cluster all of whose jobs the filter takes. The jobs
    /// come the newest first, those of one time in any order: jobs behind those that are taken are not looked at.
    pub fn take_newest<R: JobRow>(&self, jobs: impl Iterator<Item = R>) -> Vec<R> {
        let count = self.newest().unwrap_or(usize::MAX);
        let mut taken: Vec<R> = Vec::new();
        for job in jobs {
            let is_older = |last: &R| last.submitted() > job.submitted();
            if taken.len() >= count && taken.last().is_none_or(is_older) {
                break;
            }
            taken.push(job);
        }
        self.cut(&mut taken);
        taken
    }

    fn cut<R: JobRow>(&self, jobs: &mut Vec<R>) {
        let Some(First { order, count }) = self.first else {
            return;
        };
        if count < jobs.len() {
            jobs.select_nth_unstable_by(count, |a, b| order.compare(a, b));
            jobs.truncate(count);
        }
    }
}

/// Fewer jobs than this are not cut before all are looked at.
const CUT_MIN: usize = 128;

fn any_or_contains(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|one| one == name)
}
