//! Which jobs a user sees: decided by the policy and the virtual clusters of their groups.
//!
//! The node that is asked makes the sight and checks single jobs by it. It goes with the question to the
//! leaders, so that lists count what the user sees, and reasons name no other job.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{JobKey, UserName, VcName};
use crate::job_query::JobFilter;
use crate::policy::{AccessPolicy, JobVisibility};
use crate::row::JobRow;

/// What stands in the place of the name of a job that a user does not see.
pub const HIDDEN_JOB: &str = "a job of another user";

/// Which jobs a user sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobSight {
    /// All: of an admin, and where all virtual clusters are public.
    All,
    /// Those that the policy lets this user see.
    Limited(Box<LimitedSight>),
}

/// The sight of a user who may not see every job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LimitedSight {
    /// The user; none for a guest, who has no login.
    user: Option<UserName>,
    /// The virtual clusters of their groups.
    vcs: BTreeSet<VcName>,
    access: AccessPolicy,
}

impl JobSight {
    /// Of a user who is no admin, with the virtual clusters of their groups; of a guest if
    /// no user is named.
    pub fn of(user: Option<&UserName>, vcs: BTreeSet<VcName>, access: &AccessPolicy) -> Self {
        if access.is_public() {
            return Self::All;
        }
        Self::Limited(Box::new(LimitedSight {
            user: user.cloned(),
            vcs,
            access: access.clone(),
        }))
    }

    /// Why jobs of others in a virtual cluster are not seen, if they are not.
    pub fn closed(&self, vc: &VcName) -> Option<JobVisibility> {
        let Self::Limited(limited) = self else {
            return None;
        };
        match limited.access.of(vc) {
            JobVisibility::Public => None,
            JobVisibility::Group if limited.vcs.contains(vc) => None,
            closed => Some(closed),
        }
    }

    /// Whether a job of this owner in a virtual cluster is seen.
    pub fn sees(&self, vc: &VcName, owner: &UserName) -> bool {
        self.is_user(owner.as_str()) || self.closed(vc).is_none()
    }

    /// Whether a job is seen.
    pub fn shows(&self, job: &impl JobRow) -> bool {
        self.sees(job.vc(), &job.key().user)
    }

    /// Checks whether a job is seen.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check(&self, vc: &VcName, job: &JobKey) -> Result<(), HiddenJobs> {
        match self.closed(vc) {
            Some(why) if !self.is_user(job.user.as_str()) => {
                Err(self.hidden(HiddenWhat::Job(job.clone()), vc, why))
            }
            _ => Ok(()),
        }
    }

    /// What a list of jobs of these virtual clusters leaves out.
    ///
    /// # Errors
    /// Why it cannot be shown: the filter names a virtual cluster whose jobs are hidden, or users all of whose
    /// jobs are. Who names nobody but themselves sees all that they ask for.
    pub fn list<'v>(
        &self,
        filter: &JobFilter,
        vcs: impl IntoIterator<Item = &'v VcName>,
    ) -> Result<ListSight, HiddenJobs> {
        let users = &filter.users;
        if !users.is_empty() && users.iter().all(|user| self.is_user(user)) {
            return Ok(ListSight::default());
        }
        let is_wanted =
            |vc: &&VcName| filter.vcs.is_empty() || filter.vcs.iter().any(|it| it == vc.as_str());
        let (mut hidden, mut open) = (Vec::new(), 0);
        for vc in vcs.into_iter().filter(is_wanted) {
            match self.closed(vc) {
                Some(why) => hidden.push(self.hidden(HiddenWhat::List(users.clone()), vc, why)),
                None => open += 1,
            }
        }
        let is_named = !filter.vcs.is_empty() || (!users.is_empty() && open == 0);
        match hidden.first() {
            Some(first) if is_named => Err(first.clone()),
            _ => Ok(ListSight {
                hidden,
                names_users: !users.is_empty(),
            }),
        }
    }

    fn is_user(&self, name: &str) -> bool {
        match self {
            Self::All => false,
            Self::Limited(limited) => limited.user.as_ref().is_some_and(|it| it.as_str() == name),
        }
    }

    fn hidden(&self, what: HiddenWhat, vc: &VcName, visibility: JobVisibility) -> HiddenJobs {
        let user = match self {
            Self::All => None,
            Self::Limited(limited) => limited.user.clone(),
        };
        HiddenJobs {
            user,
            what,
            vc: vc.clone(),
            visibility,
        }
    }
}

/// What a list leaves out for its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSight {
    hidden: Vec<HiddenJobs>,
    names_users: bool,
}

impl ListSight {
    /// What is to be said with a list that has so many jobs.
    ///
    /// # Errors
    /// Why there is no list: users were named of whom nothing is seen. It would read as if they had no jobs.
    pub fn told(self, total: usize) -> Result<Vec<HiddenJobs>, HiddenJobs> {
        match self.hidden.first() {
            Some(first) if self.names_users && total == 0 => Err(first.clone()),
            _ => Ok(self.hidden),
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HiddenWhat {
    /// One job.
    Job(JobKey),
    /// The jobs of these users in a list; of all others if none is named.
    List(Vec<String>),
}

impl fmt::Display for HiddenWhat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job(job) => write!(f, "job {job}"),
            Self::List(users) if users.is_empty() => f.write_str("jobs of others"),
            Self::List(users) => write!(f, "jobs of {}", users.join(", ")),
        }
    }
}

/// Jobs that a user does not see. Display says why, and what can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct HiddenJobs {
    /// The user; none for a guest, who has no login.
    pub user: Option<UserName>,
    /// Which.
    pub what: HiddenWhat,
    /// Where they are.
    pub vc: VcName,
    /// Who sees them.
    pub visibility: JobVisibility,
}

impl fmt::Display for HiddenJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            user,
            what,
            vc,
            visibility,
        } = self;
        let user = user.as_ref().map_or("NAME", UserName::as_str);
        write!(f, "User {user} is not allowed to see {what} in {vc}: ")?;
        match visibility {
            JobVisibility::Group => write!(
                f,
                "its jobs are shown to users of a group with {vc}. An admin can add one: muster user set \
                 {user} --group +{vc}."
            )?,
            JobVisibility::Private | JobVisibility::Public => write!(
                f,
                "its jobs are private. An admin can change who sees them, in access.vcs of the policy: \
                 muster policy show."
            )?,
        }
        match what {
            HiddenWhat::Job(_) => Ok(()),
            HiddenWhat::List(_) => write!(
                f,
                " To list your own jobs, name yourself: muster job list --user {user}, or username={user} \
                 in a query."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(name: &str) -> VcName {
        name.parse().unwrap()
    }

    fn access(text: &str) -> AccessPolicy {
        let text = format!("access: {text}");
        crate::policy::ClusterPolicy::read(&text).unwrap().access
    }

    fn sight(text: &str) -> JobSight {
        let user: UserName = "ada".parse().unwrap();
        JobSight::of(Some(&user), [vc("lab")].into(), &access(text))
    }

    /// The virtual clusters whose jobs of others ada does not see; she has a group with `lab`.
    fn closed(text: &str) -> Vec<&'static str> {
        let all = ["default", "lab", "vision"];
        let sight = sight(text);
        let is_closed = |name: &&str| sight.closed(&vc(name)).is_some();
        all.into_iter().filter(is_closed).collect()
    }

    #[test]
    fn the_policy_and_the_groups_of_a_user_decide() {
        for (text, expect) in [
            ("{}", &[][..]),
            ("{jobs: group}", &["default", "vision"]),
            ("{jobs: private}", &["default", "lab", "vision"]),
            ("{vcs: {lab: group, vision: group}}", &["vision"]),
            ("{vcs: {lab: private}}", &["lab"]),
            ("{jobs: private, vcs: {lab: group}}", &["default", "vision"]),
            ("{jobs: group, vcs: {default: public}}", &["vision"]),
        ] {
            assert_eq!(closed(text), expect, "{text}");
        }
        assert_eq!(sight("{}"), JobSight::All);
        assert_eq!(sight("{vcs: {lab: public}}"), JobSight::All);
    }

    #[test]
    fn own_jobs_are_seen_and_others_are_refused_with_the_remedy() {
        let sight = sight("{jobs: private, vcs: {vision: group}}");
        let check = |vc: &str, job: &str| sight.check(&vc.parse().unwrap(), &job.parse().unwrap());
        assert_eq!(check("default", "ada~x"), Ok(()));
        let why = check("lab", "bob~x").unwrap_err().to_string();
        assert!(
            why.starts_with(
                "User ada is not allowed to see job bob~x in lab: its jobs are private"
            ),
            "{why}"
        );
        let why = check("vision", "bob~x").unwrap_err().to_string();
        assert!(why.contains("muster user set ada --group +vision"), "{why}");
        assert!(!sight.sees(&vc("vision"), &"bob".parse().unwrap()));
        // A guest has no jobs.
        let guest = JobSight::of(None, BTreeSet::new(), &access("{jobs: group}"));
        assert!(!guest.sees(&vc("lab"), &"ada".parse().unwrap()));
    }

    #[test]
    fn a_list_names_what_it_leaves_out_and_is_refused_where_nothing_is_left() {
        let vcs = [vc("default"), vc("lab"), vc("vision")];
        let list = |text: &str, users: &[&str], named: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
            let filter = JobFilter {
                users: owned(users),
                vcs: owned(named),
                ..JobFilter::default()
            };
            let told = |list: ListSight| list.told(0).map_err(|why| why.vc.to_string());
            let told = sight(text).list(&filter, &vcs).map(told);
            let told = told.unwrap_or_else(|why| Err(why.vc.to_string()));
            told.map(|all| {
                all.iter()
                    .map(|it| it.vc.to_string())
                    .collect::<Vec<_>>()
                    .join(",")
            })
        };
        let lab = "{vcs: {lab: private}}";
        assert_eq!(list(lab, &[], &[]), Ok("lab".to_owned()));
        assert_eq!(list(lab, &["ada"], &["lab"]), Ok(String::new()), "her own");
        assert_eq!(list(lab, &[], &["vision"]), Ok(String::new()));
        assert_eq!(list(lab, &[], &["vision", "lab"]), Err("lab".to_owned()));
        assert_eq!(list(lab, &["ada", "bob"], &["lab"]), Err("lab".to_owned()));
        // Nothing of bob is found, and some of his jobs may be hidden.
        assert_eq!(list(lab, &["bob"], &[]), Err("lab".to_owned()));
        assert_eq!(
            list("{jobs: private}", &["bob"], &[]),
            Err("default".to_owned())
        );
        // Virtual clusters that there are not stay an empty list.
        assert_eq!(list("{jobs: private}", &[], &["none"]), Ok(String::new()));
        assert_eq!(list("{}", &["bob"], &["lab"]), Ok(String::new()));
    }
}
