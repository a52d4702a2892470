//! A machine that is nothing but the history of its entries.

use muster_consensus::{RestoreError, StateMachine};
use xxhash_rust::xxh3::xxh3_64;

/// A hash over all entries so far, and the last index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HashChain {
    pub(crate) index: u64,
    pub(crate) hash: u64,
    /// What was taken in, for who asks whether something was lost or doubled.
    pub(crate) entries: Vec<u64>,
}

impl StateMachine for HashChain {
    type Output = (u64, u64);

    fn apply(&mut self, index: u64, entry: &[u8]) -> (u64, u64) {
        assert!(index > self.index, "entry {index} after {}", self.index);
        let mut bytes = self.hash.to_le_bytes().to_vec();
        bytes.extend(index.to_le_bytes());
        bytes.extend(entry);
        self.index = index;
        self.hash = xxh3_64(&bytes);
        let number = entry.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        self.entries.extend(number);
        (index, self.hash)
    }

    fn snapshot(&self) -> Vec<u8> {
        let numbers = [self.index, self.hash].into_iter();
        let numbers = numbers.chain(self.entries.iter().copied());
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        let (chunks, rest) = snapshot.as_chunks();
        let numbers: Vec<u64> = chunks
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
            .collect();
        let ([index, hash, entries @ ..], []) = (&*numbers, rest) else {
            return Err(RestoreError("its length is wrong".to_owned()));
        };
        *self = Self {
            index: *index,
            hash: *hash,
            entries: entries.to_vec(),
        };
        Ok(())
    }
}
