//! What users and groups may still have of the virtual cluster, while one plan is made.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::UserName;
use muster_model::usage::{ReachedLimit, UsageSubject, UsageView, UseOf, UseOfHours};

use super::context::Context;
use crate::gang::JobId;
use crate::usage_rules::{GangUse, HeldUse, UsageRule, UsageRules};
use crate::vc::{Current, GpusSince, VcState};

/// What the policy's limits leave. Gangs count from the decision to place them on.
#[derive(Debug)]
pub(super) struct Allowance<'a> {
    rules: &'a UsageRules,
    context: Context<'a>,
    /// What is being placed, and not committed yet.
    taken: BTreeMap<UserName, HeldUse>,
    /// The jobs of that.
    jobs: BTreeSet<JobId>,
    /// Found when the first limit of GPU hours is looked at.
    running: OnceCell<BTreeMap<UserName, Vec<GpusSince>>>,
}

impl<'a> Allowance<'a> {
    /// `placing`: gangs that are being placed, by a plan that was made before.
    pub(super) fn new(context: &Context<'a>, placing: impl Iterator<Item = Current<'a>>) -> Self {
        let mut own = Self {
            rules: &context.options.policy.limits,
            context: *context,
            taken: BTreeMap::new(),
            jobs: BTreeSet::new(),
            running: OnceCell::new(),
        };
        if !own.rules.is_empty() {
            placing.for_each(|current| own.take(&current));
        }
        own
    }

    /// Whether a gang that waits may be placed.
    ///
    /// # Errors
    /// The limit that it would go beyond.
    pub(super) fn check(&self, current: &Current<'_>) -> Result<(), ReachedLimit> {
        if self.rules.is_empty() {
            return Ok(());
        }
        let gang = self.use_of(current);
        let user = &current.job.accepted.key.user;
        let rules = self.rules.of(&self.context.options.vc, user);
        let mut checked = rules.iter().map(|rule| {
            let used_ms = |day| self.used_since(&rule.subject, day);
            let held = self.held(&rule.subject);
            rule.check(gang, held, used_ms, self.context.wall.as_millis())
        });
        checked.find(Result::is_err).unwrap_or(Ok(()))
    }

    /// A gang is placed.
    pub(super) fn take(&mut self, current: &Current<'_>) {
        if self.rules.is_empty() {
            return;
        }
        let GangUse { gpus, is_new_job } = self.use_of(current);
        let more = HeldUse {
            gpus,
            jobs: u64::from(is_new_job),
        };
        let taken = self.taken.entry(current.job.accepted.key.user.clone());
        let taken = taken.or_default();
        *taken = taken.plus(more);
        self.jobs.insert(current.job.id);
    }

    /// What users and groups have of what is limited for these users.
    pub(super) fn views(&self, users: &BTreeSet<UserName>) -> Vec<UsageView> {
        let vc = &self.context.options.vc;
        let rules = users.iter().flat_map(|user| self.rules.of(vc, user));
        let rules: BTreeMap<UsageSubject, UsageRule> =
            rules.map(|rule| (rule.subject.clone(), rule)).collect();
        rules.values().map(|rule| self.view(rule)).collect()
    }

    fn view(&self, rule: &UsageRule) -> UsageView {
        let held = self.held(&rule.subject);
        let use_of = |used: u64| move |most: u64| UseOf { used, most };
        UsageView {
            vc: self.context.options.vc.clone(),
            subject: rule.subject.clone(),
            gpus: rule.gpus.map(use_of(held.gpus)),
            jobs: rule.jobs.map(use_of(held.jobs)),
            gpu_hours: rule.gpu_hours.map(|(most, period)| {
                let span = period.at(self.context.wall.as_millis());
                UseOfHours {
                    used_ms: self.used_since(&rule.subject, span.first_day),
                    most,
                    period,
                    resets_ms: span.end_ms(),
                }
            }),
        }
    }

    fn use_of(&self, current: &Current<'_>) -> GangUse {
        let tasks = current.job.attempt.tasks_of(current.gang);
        let gpus = tasks.map(|task| current.job.gpus_of(&task.id)).sum();
        let mut gangs = current.job.attempt.gangs.iter();
        let has_machines = gangs.any(|gang| gang.is_live()) || self.jobs.contains(&current.job.id);
        GangUse {
            gpus,
            is_new_job: !has_machines,
        }
    }

    fn held(&self, subject: &UsageSubject) -> HeldUse {
        let of_user = |user: &UserName| {
            let taken = self.taken.get(user).copied().unwrap_or_default();
            self.context.state.held_by(user).plus(taken)
        };
        let users = self.users_of(subject).map(of_user);
        users.fold(HeldUse::default(), HeldUse::plus)
    }

    fn used_since(&self, subject: &UsageSubject, day: u64) -> u64 {
        let state: &VcState = self.context.state;
        let running = self.running.get_or_init(|| state.gpus_in_use());
        let now_ms = self.context.wall.as_millis();
        let users = self.users_of(subject);
        users
            .map(|user| state.used_since(user, running, day, now_ms))
            .sum()
    }

    fn users_of<'s>(
        &'s self,
        subject: &'s UsageSubject,
    ) -> Box<dyn Iterator<Item = &'s UserName> + 's> {
        match subject {
            UsageSubject::User(user) => Box::new(std::iter::once(user)),
            UsageSubject::Group(group) => Box::new(self.rules.members(group)),
        }
    }
}
