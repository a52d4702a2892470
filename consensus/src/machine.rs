//! What a group replicates.

/// A snapshot that the machine cannot read.
#[derive(Debug, thiserror::Error)]
#[error("the snapshot cannot be read: {0}")]
pub struct RestoreError(pub String);

/// A deterministic state machine. The same entries in the same order give the same state on
/// every replica: no clock, no randomness, no IO.
pub trait StateMachine {
    /// What applying an entry gives back to the proposer.
    type Output;

    /// Applies a committed entry. It must not fail: an entry that breaks a rule is refused
    /// by leaving the state as it is and saying so in the output.
    fn apply(&mut self, index: u64, entry: &[u8]) -> Self::Output;

    /// The whole state as bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Replaces the state by a snapshot's.
    ///
    /// # Errors
    /// When the bytes are not a snapshot this release can read. The state is then undefined.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError>;
}

#[cfg(test)]
pub(crate) mod journal;
