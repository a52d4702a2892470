//! The `cluster` group's state under the replicated log: bytes to entries and back.

use muster_consensus::{RestoreError, StateMachine};
use muster_control::cluster::{Applied, ClusterState, Entry, Rejected};

/// The state machine of the `cluster` group.
#[derive(Debug, Default)]
pub(crate) struct ClusterMachine(pub(crate) ClusterState);

impl StateMachine for ClusterMachine {
    /// `None` for bytes that are no entry of this release: they change nothing, on any replica.
    type Output = Option<Result<Applied, Rejected>>;

    fn apply(&mut self, index: u64, entry: &[u8]) -> Self::Output {
        match Entry::decode(entry) {
            Ok(entry) => Some(self.0.apply(index, &entry)),
            Err(error) => {
                tracing::error!(index, %error, "an entry of the cluster's log cannot be read");
                None
            }
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.snapshot()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let restored = ClusterState::restore(snapshot);
        self.0 = restored.map_err(|error| RestoreError(error.to_string()))?;
        Ok(())
    }
}
