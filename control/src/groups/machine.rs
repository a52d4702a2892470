//! The state machines of this node's groups: bytes to entries and back.

use muster_consensus::{GroupId, RestoreError, StateMachine};

use super::name::{GroupKind, kind};
use crate::cluster::{self, ClusterState};
use crate::vc::{self, VcState};

/// The state that a group replicates.
#[derive(Debug)]
pub enum GroupState {
    /// The cluster state.
    Cluster(Box<ClusterState>),
    /// A virtual cluster.
    Vc(Box<VcState>),
}

/// What applying an entry gave: what it did, or why it changed nothing.
#[derive(Debug)]
pub enum ApplyOutcome {
    /// Of the cluster.
    Cluster(Result<cluster::ClusterApplied, cluster::ClusterRejection>),
    /// Of a virtual cluster.
    Vc(Result<vc::VcApplied, vc::VcRejection>),
    /// The bytes are no entry of this release, for this reason: they change nothing, on any replica.
    Unreadable(String),
}

impl ApplyOutcome {
    /// Whether the entry was taken.
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Cluster(Ok(_)) | Self::Vc(Ok(_)))
    }
}

impl GroupState {
    /// The state of a group at its creation.
    pub fn of(group: GroupId) -> Self {
        match kind(group) {
            GroupKind::Cluster => Self::Cluster(Box::default()),
            GroupKind::Vc => Self::Vc(Box::default()),
        }
    }
}

fn unreadable(error: &impl std::fmt::Display) -> ApplyOutcome {
    ApplyOutcome::Unreadable(error.to_string())
}

impl StateMachine for GroupState {
    type Output = ApplyOutcome;

    fn apply(&mut self, index: u64, entry: &[u8]) -> ApplyOutcome {
        match self {
            Self::Cluster(state) => match cluster::ClusterEntry::decode(entry) {
                Ok(entry) => ApplyOutcome::Cluster(state.apply(index, &entry)),
                Err(error) => unreadable(&error),
            },
            Self::Vc(state) => match vc::VcEntry::decode(entry) {
                Ok(entry) => ApplyOutcome::Vc(state.apply(index, &entry)),
                Err(error) => unreadable(&error),
            },
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        match self {
            Self::Cluster(state) => state.snapshot(),
            Self::Vc(state) => state.snapshot(),
        }
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        match self {
            Self::Cluster(state) => {
                let restored = ClusterState::restore(snapshot);
                **state = restored.map_err(|error| RestoreError(error.to_string()))?;
            }
            Self::Vc(state) => {
                let restored = VcState::restore(snapshot);
                **state = restored.map_err(|error| RestoreError(error.to_string()))?;
            }
        }
        Ok(())
    }
}
