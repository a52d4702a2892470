//! The cluster state, asked over their group.

use muster_consensus::GroupId;
use muster_control::cluster::{
    ClusterApplied, ClusterEntry, ClusterRejection, ClusterState, Lineage,
};
use muster_control::groups::{ApplyOutcome, GroupError, GroupState, LocalGroup};
use tokio::sync::watch;

use super::handle::Groups;

/// What others hold of the `cluster` group, whichever it is by now.
#[derive(Clone, Debug)]
pub(crate) struct ClusterGroup {
    groups: Groups,
    lineage: watch::Receiver<Lineage>,
}

impl ClusterGroup {
    pub(crate) const fn new(groups: Groups, lineage: watch::Receiver<Lineage>) -> Self {
        Self { groups, lineage }
    }

    /// All groups of this node.
    pub(crate) const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Its number.
    pub(crate) fn id(&self) -> GroupId {
        GroupId(self.lineage.borrow().group)
    }

    /// The groups that there were before it, and where it began.
    pub(crate) fn lineage(&self) -> Lineage {
        self.lineage.borrow().clone()
    }

    /// Commits an entry. The state's own word comes back.
    ///
    /// # Errors
    /// When the group did not take it.
    pub(crate) async fn propose(
        &self,
        entry: &ClusterEntry,
    ) -> Result<Result<ClusterApplied, ClusterRejection>, GroupError> {
        let bytes = entry.encode().map_err(|error| {
            tracing::error!(%error, "an entry cannot be written");
            GroupError::Unreadable
        })?;
        match self.groups.propose(self.id(), &bytes).await? {
            ApplyOutcome::Cluster(outcome) => Ok(outcome),
            ApplyOutcome::Vc(_) | ApplyOutcome::Unreadable(_) => Err(GroupError::Unreadable),
        }
    }

    /// Looks at the state as it stands after everything committed so far, if this node leads.
    ///
    /// # Errors
    /// [`GroupError`], and then nothing was looked at.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterState) -> T + Send + 'static,
    ) -> Result<T, GroupError> {
        let read = |seen: LocalGroup<'_>| state(seen.machine).map(read);
        let found = self.groups.read(self.id(), read).await?;
        found.ok_or(GroupError::NoLeader)
    }
}

fn state(machine: &GroupState) -> Option<&ClusterState> {
    match machine {
        GroupState::Cluster(state) => Some(state),
        GroupState::Vc(_) => None,
    }
}
