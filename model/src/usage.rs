//! What users and groups use of what they may have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{GroupName, UserName, VcName};
use crate::policy::{LimitPeriod, PeriodSpan};

/// Milliseconds of an hour.
pub const HOUR_MS: u64 = 3600 * 1000;

/// Whose use is counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageSubject {
    /// One user's.
    User(UserName),
    /// That of all members of a group.
    Group(GroupName),
}

impl std::fmt::Display for UsageSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User(user) => write!(f, "{user}"),
            Self::Group(group) => write!(f, "group {group}"),
        }
    }
}

/// How much of something is used, and how much may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UseOf {
    /// Used now.
    pub used: u64,
    /// Allowed.
    pub most: u64,
}

/// GPU hours of the present period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UseOfHours {
    /// GPU milliseconds that were used, those of running tasks so far included.
    pub used_ms: u64,
    /// GPU hours that may be used.
    pub most: u64,
    /// In each.
    pub period: LimitPeriod,
    /// When they are counted from zero again, milliseconds since the epoch.
    pub resets_ms: u64,
}

impl UseOfHours {
    /// Those that are left, in milliseconds.
    pub const fn left_ms(&self) -> u64 {
        self.most
            .saturating_mul(HOUR_MS)
            .saturating_sub(self.used_ms)
    }
}

/// What one user or group uses of a virtual cluster, beside what the policy's `limits` allow there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsageView {
    /// The virtual cluster.
    pub vc: VcName,
    /// Whose.
    #[serde(flatten)]
    pub subject: UsageSubject,
    /// GPUs, if they are limited.
    pub gpus: Option<UseOf>,
    /// Jobs that have their machines, if they are limited.
    pub jobs: Option<UseOf>,
    /// GPU hours, if they are limited.
    pub gpu_hours: Option<UseOfHours>,
}

/// A limit that keeps a job waiting, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedLimit {
    /// Whose use counts.
    pub subject: UsageSubject,
    /// Of what.
    pub amount: ReachedAmount,
}

/// What there would be too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachedAmount {
    /// GPUs at once.
    Gpus {
        /// Held and allowed.
        now: UseOf,
        /// What the job asks for besides.
        asked: u64,
    },
    /// Jobs at once.
    Jobs(UseOf),
    /// GPU hours of a period.
    GpuHours {
        /// Used, milliseconds.
        used_ms: u64,
        /// Allowed, hours.
        most: u64,
        /// The period.
        period: LimitPeriod,
        /// The present one.
        span: PeriodSpan,
    },
}

impl ReachedLimit {
    /// Whether no end of another job lets the job start: it asks for more than is allowed at all.
    pub const fn is_for_ever(&self) -> bool {
        match self.amount {
            ReachedAmount::Gpus { now, asked } => asked > now.most,
            ReachedAmount::Jobs(jobs) => jobs.most == 0,
            ReachedAmount::GpuHours { most, .. } => most == 0,
        }
    }

    /// The same as the end of a sentence.
    pub fn in_words(&self, vc: &VcName) -> String {
        let whose = &self.subject;
        match self.amount {
            ReachedAmount::Gpus { now, asked } if asked > now.most => format!(
                "needs {} at once, and {whose} may have {} in virtual cluster {vc}",
                gpus(asked, ""),
                now.most
            ),
            ReachedAmount::Gpus { now, asked } => format!(
                "needs {}, and {whose} has {} of {} allowed in virtual cluster {vc}",
                gpus(asked, "more "),
                now.used,
                now.most
            ),
            ReachedAmount::Jobs(jobs) => format!(
                "waits for another job to end: {whose} has {} of {} jobs allowed at once in virtual cluster {vc}",
                jobs.used, jobs.most
            ),
            ReachedAmount::GpuHours {
                used_ms,
                most,
                period,
                span,
            } => format!(
                "waits for the next {}: {whose} has used {} of {most} GPU hours allowed from {} to {} (UTC) in \
                 virtual cluster {vc}",
                period_name(period),
                hours(used_ms),
                crate::policy::date(span.first_day),
                crate::policy::date(span.end_day),
            ),
        }
    }
}

/// `200.3`: GPU hours with one decimal.
pub fn hours(ms: u64) -> String {
    let tenths = ms / (HOUR_MS / 10);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn gpus(count: u64, more: &str) -> String {
    let noun = if count == 1 { "GPU" } else { "GPUs" };
    format!("{count} {more}{noun}")
}

const fn period_name(period: LimitPeriod) -> &'static str {
    match period {
        LimitPeriod::Day => "day",
        LimitPeriod::Week => "week",
        LimitPeriod::Month => "month",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_in_a_sentence() {
        let vc: VcName = "lab".parse().unwrap();
        let reached = |amount| ReachedLimit {
            subject: UsageSubject::Group("students".parse().unwrap()),
            amount,
        };
        let now = UseOf { used: 7, most: 8 };
        let waits = reached(ReachedAmount::Gpus { now, asked: 2 });
        assert!(!waits.is_for_ever());
        assert_eq!(
            waits.in_words(&vc),
            "needs 2 more GPUs, and group students has 7 of 8 allowed in virtual cluster lab"
        );
        let never = reached(ReachedAmount::Gpus { now, asked: 9 });
        assert!(never.is_for_ever());
        assert!(
            never
                .in_words(&vc)
                .starts_with("needs 9 GPUs at once, and group students may have 8")
        );
        let hours = reached(ReachedAmount::GpuHours {
            used_ms: 721_080_000,
            most: 200,
            period: LimitPeriod::Week,
            span: LimitPeriod::Week.at(1_795_957_200_000),
        });
        assert_eq!(
            hours.in_words(&vc),
            "waits for the next week: group students has used 200.3 of 200 GPU hours allowed from 2026-11-23 to \
             2026-11-30 (UTC) in virtual cluster lab"
        );
        assert!(!hours.is_for_ever());
        let jobs = reached(ReachedAmount::Jobs(UseOf { used: 2, most: 2 }));
        assert!(
            jobs.in_words(&vc)
                .contains("has 2 of 2 jobs allowed at once")
        );
    }
}
