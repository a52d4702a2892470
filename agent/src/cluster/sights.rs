//! Which jobs users see: by the policy in force at this node, and by their groups as they are known here.

use muster_model::id::{UserName, VcName};
use muster_model::sight::JobSight;
use muster_portal_gateway::port::{JobReader, PortError};

use crate::accounts::Accounts;
use crate::documents::policy::PolicyInForce;

/// Makes the sight of users. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct JobSights {
    pub(super) policy: PolicyInForce,
    pub(super) accounts: Accounts,
}

impl JobSights {
    /// Which jobs a reader sees now.
    pub(super) fn of(&self, reader: &JobReader) -> Result<JobSight, PortError> {
        let access = || self.policy.access();
        match reader {
            JobReader::Root => Ok(JobSight::All),
            JobReader::Guest => Ok(JobSight::of(None, [].into(), &access())),
            JobReader::User(user) => {
                let rights = self.accounts.rights(user);
                let rights = rights.ok_or(PortError::InvalidToken)?;
                Ok(match rights.admin {
                    true => JobSight::All,
                    false => JobSight::of(Some(user), rights.vcs, &access()),
                })
            }
        }
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
