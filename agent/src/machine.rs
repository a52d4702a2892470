//! The virtual cluster's state under the replicated log: bytes to entries and back.

use muster_consensus::{RestoreError, StateMachine};
use muster_control::vc::{Applied, Entry, Rejected, VcState};

/// What applying an entry gave: what it did, or why it changed nothing.
pub(crate) type Outcome = Result<Applied, Rejected>;

/// The state machine of one virtual cluster.
#[derive(Debug)]
pub(crate) struct Machine(pub VcState);

impl StateMachine for Machine {
    /// `None` for bytes that are no entry of this release: they change nothing, on any replica.
    type Output = Option<Outcome>;

    fn apply(&mut self, index: u64, entry: &[u8]) -> Option<Outcome> {
        match Entry::decode(entry) {
            Ok(entry) => Some(self.0.apply(index, &entry)),
            Err(error) => {
                tracing::error!(index, %error, "an entry of the log cannot be read and is skipped");
                None
            }
        }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.snapshot()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.0 = VcState::restore(snapshot).map_err(|error| RestoreError(error.to_string()))?;
        Ok(())
    }
}
