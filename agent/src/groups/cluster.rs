//! The cluster's own affairs, asked over their group.

use muster_consensus::GroupId;
use muster_control::cluster::{Applied, ClusterState, Entry, Lineage, Rejected};
use muster_control::groups::{Error, Machine, Outcome, Seen};
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
    pub(crate) async fn propose(&self, entry: &Entry) -> Result<Result<Applied, Rejected>, Error> {
        let bytes = entry.encode().map_err(|error| {
            tracing::error!(%error, "an entry cannot be written");
            Error::Unreadable
        })?;
        match self.groups.propose(self.id(), &bytes).await? {
            Outcome::Cluster(outcome) => Ok(outcome),
            Outcome::Vc(_) | Outcome::Unreadable(_) => Err(Error::Unreadable),
        }
    }

    /// Looks at the state as it stands after everything committed so far, if this node leads.
    ///
    /// # Errors
    /// [`Error`], and then nothing was looked at.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ClusterState) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let read = |seen: Seen<'_>| state(seen.machine).map(read);
        let found = self.groups.read(self.id(), read).await?;
        found.ok_or(Error::NoLeader)
    }
}

fn state(machine: &Machine) -> Option<&ClusterState> {
    match machine {
        Machine::Cluster(state) => Some(state),
        Machine::Vc(_) => None,
    }
}
