//! GPU time of tasks that have ended, by user and day.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{TaskId, UserName};
use muster_model::policy::DAY_MS;
use serde::{Deserialize, Serialize};

use super::VcState;
use super::attempt::{TaskAttempt, TaskRecord};
use super::job::JobRecord;
use crate::gang::{GangRun, JobId};
use crate::usage_rules::HeldUse;

/// Days that are kept of a user: a month, and what a clock that was wrong for a while adds.
const DAYS_KEPT: usize = 40;
/// Users that are kept. Beyond it, the user goes whose last day is the oldest.
const USERS_KEPT: usize = 4_096;

/// GPU time, by user and day.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct GpuTime(BTreeMap<UserName, BTreeMap<u64, u64>>);

/// The GPUs of a task, and since when it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpusSince {
    pub(crate) gpus: u64,
    /// Milliseconds since the epoch.
    pub(crate) since_ms: u64,
}

impl GpusSince {
    /// GPU milliseconds of a day, or of all days from it on, up to this time.
    fn ms_in(self, from_ms: u64, to_ms: u64) -> u64 {
        let from_ms = from_ms.max(self.since_ms);
        self.gpus.saturating_mul(to_ms.saturating_sub(from_ms))
    }
}

impl GpuTime {
    /// Adds what a task has used that ended then.
    fn add(&mut self, user: &UserName, task: GpusSince, ended_ms: u64) {
        if task.gpus == 0 || ended_ms <= task.since_ms {
            return;
        }
        let days = self.0.entry(user.clone()).or_default();
        let last = ended_ms / DAY_MS;
        let first = (task.since_ms / DAY_MS).max(last.saturating_sub(DAYS_KEPT as u64));
        for day in first..=last {
            let end_ms = ended_ms.min((day + 1).saturating_mul(DAY_MS));
            *days.entry(day).or_default() += task.ms_in(day * DAY_MS, end_ms);
        }
        while days.len() > DAYS_KEPT {
            days.pop_first();
        }
        if self.0.len() > USERS_KEPT {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let last_day = |days: &BTreeMap<u64, u64>| days.last_key_value().map(|(day, _)| *day);
        let oldest = self.0.iter().min_by_key(|(_, days)| last_day(days));
        if let Some(user) = oldest.map(|(user, _)| user.clone()) {
            self.0.remove(&user);
        }
    }

    /// GPU milliseconds of a user from that day on.
    fn since(&self, user: &UserName, day: u64) -> u64 {
        let days = self.0.get(user).into_iter();
        days.flat_map(|days| days.range(day..))
            .map(|(_, ms)| ms)
            .sum()
    }
}

impl JobRecord {
    /// GPUs of a task, by its role.
    pub(crate) fn gpus_of(&self, task: &TaskId) -> u64 {
        let roles = &self.accepted.spec.roles;
        let role = roles.iter().find(|role| role.name == task.role);
        role.map_or(0, |role| u64::from(role.resources.gpu))
    }

    fn gpus_since(&self, task: &TaskRecord, attempt: &TaskAttempt) -> Option<GpusSince> {
        Some(GpusSince {
            gpus: self.gpus_of(&task.id),
            since_ms: attempt.created?,
        })
    }
}

impl VcState {
    /// What the jobs of a user have that have machines.
    pub(crate) fn held_by(&self, user: &UserName) -> HeldUse {
        self.index.held.get(user).copied().unwrap_or_default()
    }

    /// What a task has used, if it ends now. Where it never got to start, that was no fault of its user's.
    pub(super) fn used_by(&self, run: &GangRun, task: &TaskId) -> Option<(UserName, GpusSince)> {
        let current = self.current(&run.gang)?;
        let mut tasks = current.job.attempt.tasks_of(current.gang);
        let task = tasks.find(|known| known.id == *task)?;
        task.last().launched?;
        let used = current.job.gpus_since(task, task.last())?;
        Some((current.job.accepted.key.user.clone(), used))
    }

    /// Counts what a task has used that ended then.
    pub(super) fn count_gpu_time(&mut self, used: Option<(UserName, GpusSince)>, ended_ms: u64) {
        if let Some((user, task)) = used {
            self.gpu_time.add(&user, task, ended_ms);
        }
    }

    /// The GPUs that users have now, for each of their tasks.
    pub(crate) fn gpus_in_use(&self) -> BTreeMap<UserName, Vec<GpusSince>> {
        let mut all: BTreeMap<UserName, Vec<GpusSince>> = BTreeMap::new();
        let jobs: BTreeSet<JobId> = self.index.live.iter().map(|gang| gang.job).collect();
        for job in jobs.iter().filter_map(|job| self.jobs.get(job)) {
            let tasks = job.attempt.tasks.iter();
            let live = tasks.filter(|task| task.live().is_some());
            let used = live.filter_map(|task| job.gpus_since(task, task.last()));
            let used = used.filter(|used| used.gpus > 0);
            let user = &job.accepted.key.user;
            all.entry(user.clone()).or_default().extend(used);
        }
        all
    }

    /// GPU milliseconds of a user from that day on, with what their tasks have used that run now.
    pub(crate) fn used_since(
        &self,
        user: &UserName,
        running: &BTreeMap<UserName, Vec<GpusSince>>,
        day: u64,
        now_ms: u64,
    ) -> u64 {
        let running = running.get(user).into_iter().flatten();
        let running = running.map(|used| used.ms_in(day.saturating_mul(DAY_MS), now_ms));
        self.gpu_time.since(user, day).saturating_add(running.sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn used(gpus: u64, since_ms: u64) -> GpusSince {
        GpusSince { gpus, since_ms }
    }

    #[test]
    fn time_counts_on_the_days_that_it_lies_in() {
        let (ada, bob) = ("ada".parse().unwrap(), "bob".parse().unwrap());
        let mut time = GpuTime::default();
        // From 22 o'clock on day 9 to 3 o'clock on day 11, with two GPUs.
        time.add(
            &ada,
            used(2, 9 * DAY_MS + 22 * HOUR_MS),
            11 * DAY_MS + 3 * HOUR_MS,
        );
        let hours = |day| time.since(&ada, day) / HOUR_MS;
        assert_eq!([9, 10, 11, 12].map(hours), [58, 54, 6, 0]);
        assert_eq!(time.since(&bob, 0), 0);
        // A clock that was set back counts nothing.
        time.add(&bob, used(2, 10 * DAY_MS), 9 * DAY_MS);
        assert_eq!(time.since(&bob, 0), 0);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let ada: UserName = "ada".parse().unwrap();
        let mut time = GpuTime::default();
        for day in 0..1_000 {
            time.add(&ada, used(1, day * DAY_MS), day * DAY_MS + HOUR_MS);
        }
        // Nor does a task that ran for years make it longer.
        time.add(&ada, used(1, 0), 1_000 * DAY_MS);
        assert!(time.0[&ada].len() <= DAYS_KEPT);
        assert!(time.since(&ada, 970) >= 30 * 24 * HOUR_MS);
        for user in 0..=USERS_KEPT {
            let name = format!("u{user}").parse().unwrap();
            time.add(&name, used(1, 2_000 * DAY_MS), 2_000 * DAY_MS + 1);
        }
        assert_eq!(time.0.len(), USERS_KEPT);
        assert!(!time.0.contains_key(&ada));
    }
}
