//! A machine for tests.

use super::{RestoreError, StateMachine};

/// Remembers every entry with its index, and counts them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Journal(pub(crate) Vec<(u64, Vec<u8>)>);

impl StateMachine for Journal {
    type Output = usize;

    fn apply(&mut self, index: u64, entry: &[u8]) -> usize {
        self.0.push((index, entry.to_vec()));
        self.0.len()
    }

    fn snapshot(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.0).unwrap()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.0 = postcard::from_bytes(snapshot).map_err(|e| RestoreError(e.to_string()))?;
        Ok(())
    }
}
