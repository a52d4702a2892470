//! The cluster's policy: what holds on all machines alike.

use std::path::Path;
use std::sync::Arc;

use muster_control::cluster::POLICY;
use muster_control::coordinator;
use muster_control::usage_rules::UsageRules;
use muster_model::cluster_spec::SpecProblem;
use muster_model::policy::{AccessPolicy, ClusterPolicy, PlacementPolicy};
use muster_placement::decide::{DecisionPolicy, Turns};

use super::in_force::{InForce, PlainDocument};
use super::kind::{About, DocumentKind};
use crate::accounts::Accounts;
use crate::groups::Groups;
use crate::mesh_file::{self, MeshFile};

/// It is to be the same on all members, and no version can make an agent fail: it is in force on all at
/// once.
pub(super) const ABOUT: About = About {
    id: POLICY,
    name: "policy",
    is_staged: false,
};

/// The policy that this node goes by. Cheap to clone.
pub(crate) type PolicyInForce = InForce<ClusterPolicy>;

impl PlainDocument for ClusterPolicy {
    const ABOUT: About = ABOUT;

    fn read(text: &str) -> Result<Self, Vec<SpecProblem>> {
        Self::read(text)
    }

    fn default_text() -> &'static str {
        Self::default_text()
    }
}

impl PolicyInForce {
    /// The policy now.
    pub(crate) fn now(&self) -> ClusterPolicy {
        self.here().value.clone()
    }

    /// Which users see which jobs, now: asked for with every request.
    pub(crate) fn access(&self) -> AccessPolicy {
        self.here().value.access.clone()
    }

    /// Its version; 0 for the default.
    pub(crate) fn version(&self) -> u64 {
        self.here().version
    }

    /// Puts in force what this node went by last: before tasks are taken over and logs removed by it.
    ///
    /// # Errors
    /// When the file of the mesh cannot be read.
    pub(crate) fn recall(&self, mesh_file: &Path) -> Result<(), mesh_file::DatabaseError> {
        if !mesh_file.exists() {
            // To open it would make it.
            return Ok(());
        }
        let kept = MeshFile::open(mesh_file)?.last_good_body(ABOUT.id)?;
        let Some((document, body)) = kept else {
            return Ok(());
        };
        let text = String::from_utf8_lossy(&body);
        match DocumentKind::read(self, &text, document.version) {
            Ok(put_in_force) => put_in_force(),
            Err(problems) => tracing::error!(?problems, "the kept policy cannot be read"),
        }
        Ok(())
    }

    /// Tells the coordinators of this node, as long as the agent runs. What holds for a group goes by the users
    /// that are in it now.
    pub(crate) async fn follow(self, accounts: Accounts, groups: Groups) {
        let mut versions = self.changes();
        let mut people = accounts.watch();
        let mut told = None;
        loop {
            people.mark_unchanged();
            let policy = versions.borrow_and_update().value.clone();
            let members = |group: &_| accounts.members_of(group);
            let limits = UsageRules::new(policy.limits.clone(), members);
            let policy = coordinator_policy(&policy, limits);
            if told.as_ref() != Some(&policy) {
                if groups.set_policy(policy.clone()).await.is_err() {
                    return;
                }
                told = Some(policy);
            }
            let changed = tokio::select! {
                changed = versions.changed() => changed,
                changed = people.changed() => changed,
            };
            if changed.is_err() {
                return;
            }
        }
    }
}

/// What coordinators go by.
pub(crate) fn coordinator_policy(
    policy: &ClusterPolicy,
    limits: UsageRules,
) -> coordinator::LeaderPolicy {
    coordinator::LeaderPolicy {
        limits: Arc::new(limits),
        jobs: Arc::new(policy.jobs.clone()),
        disk_mb: policy.tasks.disk_mb,
        stop_grace_ms: policy.tasks.stop_grace_ms,
        placement: placement(&policy.placement),
        min_run_ms: policy.placement.min_run_s.saturating_mul(1000),
        ..coordinator::LeaderPolicy::default()
    }
}

fn placement(policy: &PlacementPolicy) -> DecisionPolicy {
    let after_ms = |seconds: u64| (seconds > 0).then(|| seconds.saturating_mul(1000));
    DecisionPolicy {
        turns: Turns {
            is_fair: policy.fair_share,
            is_smaller_first: policy.smaller_first,
            overdue_after_ms: after_ms(policy.overdue_after_s),
            wide_overdue_after_ms: after_ms(policy.wide_overdue_after_s),
            kept_percent: u64::from(policy.kept_percent),
            ..Turns::default()
        },
        ..DecisionPolicy::default()
    }
}

#[cfg(test)]
mod tests {
    use muster_gossip::frame::DocumentRef;

    use super::*;

    #[test]
    fn the_policy_that_nobody_edited_is_what_coordinators_are_made_with() {
        let policy = coordinator_policy(&ClusterPolicy::default(), UsageRules::default());
        assert_eq!(policy.placement, DecisionPolicy::default());
        let tasks = ClusterPolicy::default().tasks;
        assert_eq!(policy.stop_grace_ms, tasks.stop_grace_ms);
        assert_eq!(policy.disk_mb, tasks.disk_mb);
    }

    #[test]
    fn an_agent_starts_with_the_policy_that_it_went_by_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh_file.redb");
        let policy = PolicyInForce::default();
        policy.recall(&path).unwrap();
        assert_eq!(policy.now(), ClusterPolicy::default());
        let kept = |version, text: &str| {
            let document = DocumentRef {
                id: ABOUT.id,
                version,
            };
            let mut mesh_file = MeshFile::open(&path).unwrap();
            mesh_file.keep_body(document, text.as_bytes()).unwrap();
            mesh_file.try_out(document).unwrap();
            document
        };
        let good = kept(1, "tasks: {pids: 100}");
        MeshFile::open(&path).unwrap().survived(good).unwrap();
        // Not in force yet.
        kept(2, "tasks: {pids: 200}");
        policy.recall(&path).unwrap();
        assert_eq!(policy.now().tasks.pids, 100);
        policy.reset();
        assert_eq!(policy.now(), ClusterPolicy::default());
    }
}
