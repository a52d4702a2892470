//! The state machines of this node's groups: bytes to entries and back.

use muster_consensus::{GroupId, RestoreError, StateMachine};
use muster_control::cluster::{self, ClusterState};
use muster_control::vc::{self, VcState};

use super::name::{Kind, kind};

/// The state that a group replicates.
#[derive(Debug)]
pub(crate) enum Machine {
    /// The cluster's own affairs.
    Cluster(Box<ClusterState>),
    /// A virtual cluster.
    Vc(Box<VcState>),
}

/// What applying an entry gave: what it did, or why it changed nothing.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Of the cluster.
    Cluster(Result<cluster::Applied, cluster::Rejected>),
    /// Of a virtual cluster.
    Vc(Result<vc::Applied, vc::Rejected>),
    /// The bytes are no entry of this release: they change nothing, on any replica.
    Unreadable,
}

impl Machine {
    /// The state of a group at its birth.
    pub(crate) fn of(group: GroupId) -> Self {
        match kind(group) {
            Kind::Cluster => Self::Cluster(Box::default()),
            Kind::Vc => Self::Vc(Box::default()),
        }
    }
}

fn unreadable(index: u64, error: &impl std::fmt::Display) -> Outcome {
    tracing::error!(index, %error, "an entry of a log cannot be read and is skipped");
    Outcome::Unreadable
}

impl StateMachine for Machine {
    type Output = Outcome;

    fn apply(&mut self, index: u64, entry: &[u8]) -> Outcome {
        match self {
            Self::Cluster(state) => match cluster::Entry::decode(entry) {
                Ok(entry) => Outcome::Cluster(state.apply(index, &entry)),
                Err(error) => unreadable(index, &error),
            },
            Self::Vc(state) => match vc::Entry::decode(entry) {
                Ok(entry) => Outcome::Vc(state.apply(index, &entry)),
                Err(error) => unreadable(index, &error),
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
