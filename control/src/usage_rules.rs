//! How much of a virtual cluster each user and group may have, by the policy's `limits` and the groups that
//! users are in. Pure; what is used is counted by the [state](crate::vc::VcState).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{GroupName, UserName, VcName};
use muster_model::policy::{LimitPeriod, LimitSubject, UsageLimit};
use muster_model::usage::{ReachedAmount, ReachedLimit, UsageSubject, UseOf};

/// The policy's limits, with the members of the groups that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageRules {
    limits: Vec<UsageLimit>,
    members: BTreeMap<GroupName, BTreeSet<UserName>>,
}

/// What holds for one user or group in one virtual cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRule {
    /// Whose use is counted.
    pub subject: UsageSubject,
    /// Most GPUs at once.
    pub gpus: Option<u64>,
    /// Most jobs at once.
    pub jobs: Option<u64>,
    /// Most GPU hours in each period.
    pub gpu_hours: Option<(u64, LimitPeriod)>,
}

/// What a gang would have besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GangUse {
    /// GPUs of its tasks.
    pub gpus: u64,
    /// Whether its job has no machines yet.
    pub is_new_job: bool,
}

/// What is held at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUse {
    /// GPUs.
    pub gpus: u64,
    /// Jobs that have machines.
    pub jobs: u64,
}

impl HeldUse {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            gpus: self.gpus.saturating_add(other.gpus),
            jobs: self.jobs.saturating_add(other.jobs),
        }
    }
}

/// How narrowly an entry names a user: the narrowest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    User,
    EachIn,
    EachUser,
}

impl UsageRules {
    /// The rules of these limits. `members`: the users of each group that they name.
    pub fn new(
        limits: Vec<UsageLimit>,
        members: impl Fn(&GroupName) -> BTreeSet<UserName>,
    ) -> Self {
        let groups = limits.iter().filter_map(|limit| match limit.subject() {
            Ok(LimitSubject::EachIn(group) | LimitSubject::Group(group)) => Some(group),
            Ok(LimitSubject::User(_) | LimitSubject::EachUser) | Err(_) => None,
        });
        let members = groups.map(|group| (group.clone(), members(group)));
        let members = members.collect();
        Self { limits, members }
    }

    /// Whether nothing is limited.
    pub const fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The members of a group that a limit names.
    pub fn members(&self, group: &GroupName) -> impl Iterator<Item = &UserName> {
        self.members.get(group).into_iter().flatten()
    }

    /// What holds for a user in a virtual cluster: first for the user alone, then for their groups.
    pub fn of(&self, vc: &VcName, user: &UserName) -> Vec<UsageRule> {
        let own = self.own(vc, user);
        let groups = self.members.iter();
        let groups = groups.filter(|(_, members)| members.contains(user));
        let groups = groups.map(|(group, _)| self.of_group(vc, group));
        own.into_iter().chain(groups.flatten()).collect()
    }

    /// What holds for all members of a group together.
    fn of_group(&self, vc: &VcName, group: &GroupName) -> Option<UsageRule> {
        let limits = self.here(vc);
        let limits = limits.filter(|it| it.subject() == Ok(LimitSubject::Group(group)));
        // All of them name this group.
        let scoped: Vec<_> = limits.map(|limit| (Scope::User, limit)).collect();
        narrowest(UsageSubject::Group(group.clone()), &scoped)
    }

    fn own(&self, vc: &VcName, user: &UserName) -> Option<UsageRule> {
        let scoped = self.here(vc).filter_map(|limit| {
            let scope = match limit.subject().ok()? {
                LimitSubject::User(name) => (name == *user).then_some(Scope::User),
                LimitSubject::EachIn(group) => {
                    let is_in = self.members(group).any(|member| member == user);
                    is_in.then_some(Scope::EachIn)
                }
                LimitSubject::EachUser => Some(Scope::EachUser),
                LimitSubject::Group(_) => None,
            };
            Some((scope?, limit))
        });
        let scoped: Vec<_> = scoped.collect();
        narrowest(UsageSubject::User(user.clone()), &scoped)
    }

    /// The limits that hold in a virtual cluster.
    fn here(&self, vc: &VcName) -> impl Iterator<Item = &UsageLimit> {
        let is_here = move |limit: &&UsageLimit| limit.vc.as_ref().is_none_or(|named| named == vc);
        self.limits.iter().filter(is_here)
    }
}

/// Of each amount the limit that names the subject most narrowly, then the one that names the virtual cluster.
/// A member of several groups has the largest.
fn narrowest(subject: UsageSubject, scoped: &[(Scope, &UsageLimit)]) -> Option<UsageRule> {
    let order = |(scope, limit): &(Scope, &UsageLimit)| (Reverse(*scope), limit.vc.is_some());
    let pick = |amount: fn(&UsageLimit) -> Option<u32>| {
        let named = scoped.iter().filter(|(_, limit)| amount(limit).is_some());
        named.max_by_key(|scoped| (order(scoped), amount(scoped.1)))
    };
    let most = |amount: fn(&UsageLimit) -> Option<u32>| {
        let picked = pick(amount)?;
        amount(picked.1).map(u64::from)
    };
    let period = pick(|limit| limit.gpu_hours).and_then(|(_, limit)| limit.period);
    let hours = most(|limit| limit.gpu_hours);
    let rule = UsageRule {
        subject,
        gpus: most(|limit| limit.gpus),
        jobs: most(|limit| limit.jobs),
        gpu_hours: hours.map(|hours| (hours, period.unwrap_or_default())),
    };
    let limits_any = rule.gpus.or(rule.jobs).or(hours).is_some();
    limits_any.then_some(rule)
}

impl UsageRule {
    /// Whether a gang may have its machines beside what is held. `used_ms`: GPU milliseconds that were used
    /// since that day, in days since the epoch. `now_ms`: milliseconds since the epoch.
    ///
    /// # Errors
    /// The limit that it would go beyond.
    pub fn check(
        &self,
        gang: GangUse,
        held: HeldUse,
        used_ms: impl Fn(u64) -> u64,
        now_ms: u64,
    ) -> Result<(), ReachedLimit> {
        let reached = |amount| ReachedLimit {
            subject: self.subject.clone(),
            amount,
        };
        if let Some(most) = self.gpus
            && gang.gpus > 0
            && held.gpus.saturating_add(gang.gpus) > most
        {
            let used = held.gpus;
            let now = UseOf { used, most };
            let asked = gang.gpus;
            return Err(reached(ReachedAmount::Gpus { now, asked }));
        }
        if let Some(most) = self.jobs
            && gang.is_new_job
            && held.jobs >= most
        {
            let used = held.jobs;
            return Err(reached(ReachedAmount::Jobs(UseOf { used, most })));
        }
        match self.gpu_hours {
            Some((most, period)) if gang.gpus > 0 => {
                let span = period.at(now_ms);
                let used_ms = used_ms(span.first_day);
                let is_used_up = used_ms >= most.saturating_mul(muster_model::usage::HOUR_MS);
                let hours = ReachedAmount::GpuHours {
                    used_ms,
                    most,
                    period,
                    span,
                };
                if is_used_up {
                    Err(reached(hours))
                } else {
                    Ok(())
                }
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> UsageRules {
        let policy = muster_model::policy::ClusterPolicy::read(text).unwrap();
        UsageRules::new(policy.limits, |group| match group.as_str() {
            "students" => ["ada", "bob"].map(|name| name.parse().unwrap()).into(),
            "staff" => ["bob".parse().unwrap()].into(),
            _ => BTreeSet::new(),
        })
    }

    fn told(rules: &UsageRules, vc: &str, user: &str) -> Vec<String> {
        let all = rules.of(&vc.parse().unwrap(), &user.parse().unwrap());
        let one = |rule: &UsageRule| {
            let UsageRule {
                subject,
                gpus,
                jobs,
                gpu_hours,
            } = rule;
            format!("{subject}: {gpus:?} {jobs:?} {gpu_hours:?}")
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn the_narrowest_entry_holds_for_each_amount() {
        let rules = rules(
            "limits:\n- {user: '*', gpus: 4, jobs: 9}\n- {user: '*', vc: lab, jobs: 3}\n\
             - {each_in: students, gpus: 2}\n- {each_in: staff, gpus: 8}\n- {user: ada, vc: lab, gpus: 6}\n\
             - {group: students, gpu_hours: 100, period: month}\n- {group: students, vc: lab, gpus: 0}",
        );
        for (vc, user, expect) in [
            ("lab", "eve", vec!["eve: Some(4) Some(3) None"]),
            ("prod", "eve", vec!["eve: Some(4) Some(9) None"]),
            (
                "lab",
                "ada",
                vec![
                    "ada: Some(6) Some(3) None",
                    "group students: Some(0) None Some((100, Month))",
                ],
            ),
            (
                "prod",
                "ada",
                vec![
                    "ada: Some(2) Some(9) None",
                    "group students: None None Some((100, Month))",
                ],
            ),
            // Of the groups of a user the largest.
            (
                "prod",
                "bob",
                vec![
                    "bob: Some(8) Some(9) None",
                    "group students: None None Some((100, Month))",
                ],
            ),
        ] {
            assert_eq!(told(&rules, vc, user), expect, "{vc} {user}");
        }
        assert!(UsageRules::default().is_empty());
        assert!(told(&UsageRules::default(), "lab", "ada").is_empty());
    }

    #[test]
    fn a_gang_that_would_go_beyond_a_limit_is_held_back() {
        let rule = UsageRule {
            subject: UsageSubject::User("ada".parse().unwrap()),
            gpus: Some(4),
            jobs: Some(2),
            gpu_hours: Some((10, LimitPeriod::Day)),
        };
        let check = |gpus, is_new_job, (held_gpus, held_jobs), used_ms| {
            let gang = GangUse { gpus, is_new_job };
            let held = HeldUse {
                gpus: held_gpus,
                jobs: held_jobs,
            };
            let checked = rule.check(
                gang,
                held,
                |day| if day == 1 { used_ms } else { 0 },
                86_400_000,
            );
            match checked.err().map(|reached| reached.amount) {
                None => "ok",
                Some(ReachedAmount::Gpus { .. }) => "gpus",
                Some(ReachedAmount::Jobs(_)) => "jobs",
                Some(ReachedAmount::GpuHours { .. }) => "hours",
            }
        };
        for (gpus, is_new_job, held, used_ms, expect) in [
            (4, true, (0, 0), 0, "ok"),
            (1, true, (4, 1), 0, "gpus"),
            (5, true, (0, 0), 0, "gpus"),
            (1, true, (3, 2), 0, "jobs"),
            (1, false, (3, 2), 0, "ok"),
            // What asks for no GPU needs none of what is limited of them.
            (0, true, (5, 0), 40_000_000, "ok"),
            (1, true, (0, 0), 35_999_999, "ok"),
            (1, true, (0, 0), 36_000_000, "hours"),
        ] {
            assert_eq!(
                check(gpus, is_new_job, held, used_ms),
                expect,
                "{gpus} {held:?} {used_ms}"
            );
        }
    }
}
