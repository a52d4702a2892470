//! The part of a replica's log that is at hand: all entries since they were last cut.

use std::cell::Cell;
use std::collections::VecDeque;

use protobuf::Message as _;
use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, StorageError};

/// The log as Raft reads it.
#[derive(Debug, Default)]
pub(crate) struct RaftLog {
    /// Index and term of what came before the entries.
    before: (u64, u64),
    entries: VecDeque<Entry>,
    bytes: usize,
    state: RaftState,
    /// Made when somebody needs it, and let go after it was sent.
    snapshot: Option<Snapshot>,
    asked: Cell<bool>,
}

impl RaftLog {
    /// What a disk held.
    pub(crate) fn new(
        snapshot: &Snapshot,
        before: (u64, u64),
        entries: Vec<Entry>,
        hard: HardState,
    ) -> Self {
        let conf = snapshot.get_metadata().get_conf_state().clone();
        Self {
            before,
            bytes: entries.iter().map(size).sum(),
            entries: entries.into(),
            state: RaftState::new(hard, conf),
            snapshot: None,
            asked: Cell::new(false),
        }
    }

    pub(crate) fn first(&self) -> u64 {
        self.before.0 + 1
    }

    pub(crate) fn last(&self) -> u64 {
        self.before.0 + self.entries.len() as u64
    }

    /// The entries after this one.
    pub(crate) fn after(&self, index: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |it| it.index > index)
    }

    /// The first of the newest entries up to `last`, of which there are at most so many, with so many bytes.
    pub(crate) fn trail(&self, last: u64, entries: u64, bytes: usize) -> u64 {
        let (mut first, mut left) = (last + 1, bytes);
        let oldest = (last + 1).saturating_sub(entries);
        let newest_first = self.entries.iter().rev();
        for entry in newest_first.filter(|entry| entry.index <= last) {
            let Some(rest) = left.checked_sub(size(entry)) else {
                break;
            };
            if entry.index < oldest {
                break;
            }
            (first, left) = (entry.index, rest);
        }
        first
    }

    /// Bytes of all entries.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn conf(&self) -> &ConfState {
        &self.state.conf_state
    }

    pub(crate) fn set_conf(&mut self, conf: ConfState) {
        self.state.conf_state = conf;
    }

    /// Appends; entries from the first one's index on are void.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else {
            return;
        };
        let keep = first.index.saturating_sub(self.first());
        while self.entries.len() as u64 > keep {
            let dropped = self.entries.pop_back();
            self.bytes -= dropped.as_ref().map_or(0, size);
        }
        self.bytes += entries.iter().map(size).sum::<usize>();
        self.entries.extend(entries.iter().cloned());
    }

    /// Forgets entries up to `index`.
    pub(crate) fn cut(&mut self, index: u64) {
        while self.before.0 < index
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= size(&entry);
            self.before = (entry.index, entry.term);
        }
    }

    /// Begins anew from a snapshot.
    pub(crate) fn restart(&mut self, snapshot: &Snapshot) {
        let meta = snapshot.get_metadata();
        self.before = (meta.index, meta.term);
        self.entries.clear();
        self.bytes = 0;
        self.state.conf_state = meta.get_conf_state().clone();
    }

    /// Whether somebody needs a snapshot that is not at hand.
    pub(crate) fn wants_snapshot(&self) -> bool {
        self.asked.take()
    }

    /// A snapshot for those who need it.
    pub(crate) fn offer(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
    }

    /// Nobody needs it for now.
    pub(crate) fn let_go(&mut self) {
        self.snapshot = None;
    }
}

fn size(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + size_of::<Entry>()
}

impl raft::Storage for RaftLog {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(self.state.clone())
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low < self.first() {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let max = max.into().unwrap_or(u64::MAX);
        let mut bytes = 0;
        let mut taken = Vec::new();
        for index in low..high {
            let Some(entry) = self.at(index) else {
                return Err(raft::Error::Store(StorageError::Unavailable));
            };
            bytes += u64::from(entry.compute_size());
            if bytes > max && !taken.is_empty() {
                break;
            }
            taken.push(entry.clone());
        }
        Ok(taken)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.before.0 {
            return Ok(self.before.1);
        }
        if index < self.before.0 {
            return Err(raft::Error::Store(StorageError::Compacted));
        }
        let entry = self.at(index);
        entry
            .map(|entry| entry.term)
            .ok_or(raft::Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request: u64, _to: u64) -> raft::Result<Snapshot> {
        let ready = self.snapshot.as_ref();
        // One that ends before the entries begin would leave a gap.
        let at_least = request.max(self.before.0);
        match ready.filter(|snapshot| snapshot.get_metadata().index >= at_least) {
            Some(snapshot) => Ok(snapshot.clone()),
            None => {
                self.asked.set(true);
                Err(raft::Error::Store(
                    StorageError::SnapshotTemporarilyUnavailable,
                ))
            }
        }
    }
}

impl RaftLog {
    fn at(&self, index: u64) -> Option<&Entry> {
        let offset = index.checked_sub(self.first())?;
        self.entries.get(usize::try_from(offset).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries 1 to 8, the later four of a thousand bytes.
    fn memory() -> RaftLog {
        let entry = |index: u64| Entry {
            index,
            data: vec![7; if index > 4 { 1_000 } else { 0 }].into(),
            ..Entry::default()
        };
        let entries: Vec<Entry> = (1..=8).map(entry).collect();
        let mut memory = RaftLog::default();
        memory.append(&entries);
        memory
    }

    #[test]
    fn a_trail_is_short_in_entries_and_in_bytes() {
        let memory = memory();
        let large = 1_000 + size_of::<Entry>();
        for (last, entries, bytes, first) in [
            (8, 3, usize::MAX, 6),
            (8, 100, usize::MAX, 1),
            (6, 2, usize::MAX, 5),
            (8, 100, 2 * large, 7),
            (8, 100, 2 * large - 1, 8),
            (8, 100, 10, 9),
            (8, 0, usize::MAX, 9),
        ] {
            assert_eq!(
                memory.trail(last, entries, bytes),
                first,
                "{last} {entries} {bytes}"
            );
        }
    }
}
