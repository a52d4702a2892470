//! How much of a virtual cluster users and groups may have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::period::LimitPeriod;
use crate::cluster_spec::SpecProblem;
use crate::id::{GroupName, UserName, VcName};

/// Entries of `limits`, at most.
pub const LIMITS_MAX: usize = 256;
/// Most GPU hours that an entry can name.
const GPU_HOURS_MAX: u32 = 100_000_000;

/// One entry of `limits`. It names exactly one of `user`, `each_in` and `group`, and at least one amount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UsageLimit {
    /// The virtual cluster where it holds; none: in each one, counted there on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vc: Option<VcName>,
    /// One user by name, or `*`: each user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Each member of this group, counted alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub each_in: Option<GroupName>,
    /// All members of this group, counted together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// Most GPUs at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Most jobs at once that have their machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<u32>,
    /// Most GPU hours in each period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_hours: Option<u32>,
    /// The period of `gpu_hours`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<LimitPeriod>,
}

/// Whom an entry limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitSubject<'a> {
    /// This user.
    User(UserName),
    /// Each user on their own.
    EachUser,
    /// Each member of this group on their own.
    EachIn(&'a GroupName),
    /// All members of this group together.
    Group(&'a GroupName),
}

impl UsageLimit {
    /// Whom it limits.
    ///
    /// # Errors
    /// What is wrong with the three fields that name the subject.
    pub fn subject(&self) -> Result<LimitSubject<'_>, String> {
        match (&self.user, &self.each_in, &self.group) {
            (Some(all), None, None) if all == "*" => Ok(LimitSubject::EachUser),
            (Some(name), None, None) => match name.parse() {
                Ok(user) => Ok(LimitSubject::User(user)),
                Err(why) => Err(format!(
                    "user {name:?} is neither \"*\" nor a user's name: {why}"
                )),
            },
            (None, Some(group), None) => Ok(LimitSubject::EachIn(group)),
            (None, None, Some(group)) => Ok(LimitSubject::Group(group)),
            _ => Err("must name exactly one of user, each_in and group".to_owned()),
        }
    }

    fn problem(&self) -> Option<String> {
        if let Err(why) = self.subject() {
            return Some(why);
        }
        if self.gpus.is_none() && self.jobs.is_none() && self.gpu_hours.is_none() {
            return Some("limits nothing: name gpus, jobs or gpu_hours".to_owned());
        }
        if self.period.is_some() && self.gpu_hours.is_none() {
            return Some("has a period, which gpu_hours alone have".to_owned());
        }
        let hours = self.gpu_hours.unwrap_or_default();
        (hours > GPU_HOURS_MAX).then(|| format!("gpu_hours must be at most {GPU_HOURS_MAX}"))
    }

    /// What tells two entries apart that limit the same.
    fn key(&self) -> (Option<&VcName>, [Option<&str>; 3]) {
        let names = [
            self.user.as_deref(),
            self.each_in.as_ref().map(GroupName::as_str),
            self.group.as_ref().map(GroupName::as_str),
        ];
        (self.vc.as_ref(), names)
    }
}

/// What is wrong with the entries, each with its path.
pub(super) fn problems(limits: &[UsageLimit]) -> Vec<SpecProblem> {
    if limits.len() > LIMITS_MAX {
        let message = format!(
            "has {} entries; at most {LIMITS_MAX} are read",
            limits.len()
        );
        return vec![SpecProblem::new("limits", message)];
    }
    let mut seen = BTreeMap::new();
    let mut problems = Vec::new();
    for (at, limit) in limits.iter().enumerate() {
        let path = format!("limits[{at}]");
        if let Some(problem) = limit.problem() {
            problems.push(SpecProblem::new(path, problem));
        } else if let Some(first) = seen.insert(limit.key(), at) {
            let message = format!("limits the same users as limits[{first}]: join the two");
            problems.push(SpecProblem::new(path, message));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use crate::policy::ClusterPolicy;

    #[test]
    fn an_entry_names_whom_and_how_much() {
        let text = "limits:\n- {user: '*', gpus: 4}\n- {user: ada, vc: lab, gpus: 8, jobs: 2}\n\
                    - {each_in: students, jobs: 1}\n- {group: students, gpu_hours: 100, period: month}";
        let policy = ClusterPolicy::read(text).unwrap();
        assert_eq!(policy.limits.len(), 4);
        for (entry, expect) in [
            (
                "{gpus: 4}",
                "limits[0]: must name exactly one of user, each_in and group",
            ),
            ("{user: ada, group: lab, gpus: 4}", "exactly one"),
            ("{user: 'a b', gpus: 4}", "neither \"*\" nor a user's name"),
            ("{user: ada}", "limits nothing"),
            ("{user: ada, gpus: 1, period: day}", "has a period"),
            (
                "{user: ada, gpu_hours: 100000001}",
                "must be at most 100000000",
            ),
            ("{user: ada, gpus: -1}", "limits[0].gpus"),
            (
                "{user: ada, gpu_hours: 1, period: year}",
                "limits[0].period",
            ),
            ("{user: ada, gpu: 1}", "gpu"),
            (
                "{user: ada, gpus: 1}\n- {user: ada, jobs: 1}",
                "limits[1]: limits the same users as limits[0]",
            ),
        ] {
            let problems = ClusterPolicy::read(&format!("limits:\n- {entry}")).unwrap_err();
            let told = problems[0].to_string();
            assert!(told.contains(expect), "{entry}: {told}");
        }
        let many = "- {user: '*', gpus: 1}\n".repeat(super::LIMITS_MAX + 1);
        let problems = ClusterPolicy::read(&format!("limits:\n{many}")).unwrap_err();
        assert!(
            problems[0].to_string().contains("257 entries"),
            "{problems:?}"
        );
    }
}
