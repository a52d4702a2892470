//! Which jobs users see: by the policy in force at this node, and by their groups as they are known here.

use std::collections::BTreeMap;

use muster_model::id::{UserName, VcName};
use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::sight::JobSight;
use muster_portal_gateway::port::{JobReader, PortError};

use crate::accounts::Accounts;
use crate::documents::policy::PolicyInForce;

/// What is shown to guests where the policy is not known.
const NOTHING: AccessPolicy = AccessPolicy {
    jobs: JobVisibility::Private,
    vcs: BTreeMap::new(),
};

fn no_policy() -> PortError {
    let why = "this node has not got the cluster's policy yet, which says which users see which jobs; try again";
    PortError::Unavailable(why.to_owned())
}

/// Makes the sight of users. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct JobSights {
    pub(super) policy: PolicyInForce,
    pub(super) accounts: Accounts,
}

impl JobSights {
    /// Which jobs a reader sees now.
    pub(super) fn of(&self, reader: &JobReader) -> Result<JobSight, PortError> {
        match reader {
            JobReader::Root => Ok(JobSight::All),
            JobReader::Guest => {
                let access = self.access().unwrap_or(NOTHING);
                Ok(JobSight::of(None, [].into(), &access))
            }
            JobReader::User(user) => {
                let rights = self.accounts.rights(user);
                let rights = rights.ok_or(PortError::InvalidToken)?;
                Ok(match rights.admin {
                    true => JobSight::All,
                    false => {
                        let access = self.access().ok_or_else(no_policy)?;
                        JobSight::of(Some(user), rights.vcs, &access)
                    }
                })
            }
        }
    }

    /// What the cluster's policy says of that; none while this node, which has just joined, has not got the
    /// policy yet.
    fn access(&self) -> Option<AccessPolicy> {
        let in_force = self.accounts.cluster_map().map_or(0, |map| map.policy);
        let is_there = self.policy.version() > 0 || in_force == 0;
        is_there.then(|| self.policy.access())
    }

    /// Ends when a reader does not see the jobs of this owner in a virtual cluster any more.
    pub(super) async fn until_hidden(self, reader: JobReader, vc: VcName, owner: UserName) {
        let (mut policies, mut users) = (self.policy.changes(), self.accounts.watch());
        loop {
            policies.mark_unchanged();
            users.mark_unchanged();
            let sight = self.of(&reader);
            if !sight.is_ok_and(|sight| sight.sees(&vc, &owner)) {
                return;
            }
            let changed = tokio::select! {
                changed = policies.changed() => changed,
                changed = users.changed() => changed,
            };
            if changed.is_err() {
                // The agent is ending, and what is read with it.
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_the_policy_shows_no_jobs_of_others() {
        let policy = PolicyInForce::default();
        let ada: UserName = "ada".parse().unwrap();
        for (in_force, expect) in [(0, true), (7, false)] {
            let accounts = crate::accounts::tests::of_users(&["ada"], in_force);
            let sights = JobSights {
                policy: policy.clone(),
                accounts,
            };
            let (lab, bob) = ("lab".parse().unwrap(), "bob".parse().unwrap());
            let own = sights.of(&JobReader::User(ada.clone()));
            assert_eq!(own.is_ok_and(|sight| sight.sees(&lab, &bob)), expect);
            let guest = sights.of(&JobReader::Guest).unwrap();
            assert_eq!(guest.sees(&lab, &bob), expect);
            assert!(sights.of(&JobReader::Root).unwrap().sees(&lab, &bob));
        }
    }
}
