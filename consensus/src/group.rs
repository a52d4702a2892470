//! A group: the log, the machine, and the order between them.

use std::collections::VecDeque;
use std::path::Path;

use crate::log::{Error, Log};
use crate::machine::StateMachine;

/// How a group keeps its log short.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Entries after which the state is written as a snapshot and the log cut.
    pub log_entries_max: u64,
}

impl Default for Options {
    /// 4096 entries: replayed in well under a second, and a snapshot every few hundred jobs.
    fn default() -> Self {
        Self {
            log_entries_max: 4096,
        }
    }
}

/// A replica of one group with its machine.
#[derive(Debug)]
pub struct Group<M> {
    log: Log,
    machine: M,
    options: Options,
    applied: u64,
    unapplied: VecDeque<Vec<u8>>,
    snapshot: u64,
    term: u64,
}

impl<M: StateMachine> Group<M> {
    /// Opens the group's file, creating it if missing, and brings the machine up to date.
    /// Begins a new term, so that orders sent before are told from orders sent after.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds a state that this release cannot read.
    pub fn open(path: &Path, machine: M, options: Options) -> Result<Self, Error> {
        let mut log = Log::new(path);
        let contents = log.open()?;
        let mut group = Self {
            log,
            machine,
            options,
            applied: 0,
            unapplied: VecDeque::new(),
            snapshot: 0,
            term: contents.term,
        };
        if let Some((index, bytes)) = &contents.snapshot {
            group
                .machine
                .restore(bytes)
                .map_err(|source| Error::Snapshot {
                    path: path.to_owned(),
                    source,
                })?;
            group.applied = *index;
            group.snapshot = *index;
        }
        for (index, entry) in &contents.entries {
            if *index != group.applied + 1 {
                return Err(Error::Gap {
                    path: path.to_owned(),
                    index: group.applied + 1,
                });
            }
            group.machine.apply(*index, entry);
            group.applied = *index;
        }
        Ok(group)
    }

    /// Makes the entries durable with one sync. They are applied one by one by
    /// [`Group::apply_next`], so that the caller can act on the state after each.
    ///
    /// # Errors
    /// When the disk refuses: none of the entries is then part of the log, and the caller may
    /// try again.
    pub fn commit(&mut self, entries: Vec<Vec<u8>>) -> Result<(), Error> {
        let first = self.applied + self.unapplied.len() as u64 + 1;
        self.log.append(first, &entries)?;
        self.unapplied.extend(entries);
        Ok(())
    }

    /// Applies the next committed entry and gives its output; `None` when all are applied.
    pub fn apply_next(&mut self) -> Option<M::Output> {
        let entry = self.unapplied.pop_front()?;
        self.applied += 1;
        Some(self.machine.apply(self.applied, &entry))
    }

    /// Whether the log is long enough to be cut. Cutting is left to the caller, who knows when
    /// a pause hurts least.
    pub fn wants_compaction(&self) -> bool {
        self.applied - self.snapshot >= self.options.log_entries_max
    }

    /// Writes a snapshot and cuts the log.
    ///
    /// # Errors
    /// When the disk refuses: the log stays as it was.
    pub fn compact(&mut self) -> Result<(), Error> {
        self.log.compact(self.applied, &self.machine.snapshot())?;
        self.snapshot = self.applied;
        Ok(())
    }

    /// The machine, for reading.
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// The term that began when the group was opened.
    pub const fn term(&self) -> u64 {
        self.term
    }

    /// Index of the last applied entry, 0 before the first.
    pub const fn applied(&self) -> u64 {
        self.applied
    }

    /// The file that holds the group.
    pub fn path(&self) -> &Path {
        self.log.path()
    }
}

#[cfg(test)]
mod tests;
