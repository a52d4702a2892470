//! The durable side of a group: term, snapshot and log in one redb file.

use std::path::{Path, PathBuf};

use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

const LOG: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("log");
const SNAPSHOT: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshot");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const TERM: &str = "term";

/// Pages kept in memory. The log is written at its end and read once, at start.
const CACHE_BYTES: usize = 2 << 20;

/// The log could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused. Nothing of the call is part of the log afterwards.
    #[error("cannot write {path}")]
    Storage {
        /// The log's file.
        path: PathBuf,
        /// What the store says.
        #[source]
        source: Box<redb::Error>,
    },
    /// The file holds a state that this release cannot read. Nothing was changed.
    #[error("cannot read the state in {path}")]
    Snapshot {
        /// The log's file.
        path: PathBuf,
        /// What the machine says.
        #[source]
        source: crate::RestoreError,
    },
    /// An entry between the snapshot and the log's end is missing. Nothing was changed.
    #[error("{path} lacks entry {index}; restore the file from a backup")]
    Gap {
        /// The log's file.
        path: PathBuf,
        /// The first missing index.
        index: u64,
    },
}

/// What a log holds when it is opened.
#[derive(Debug)]
pub(crate) struct Contents {
    /// Index and bytes of the newest snapshot.
    pub(crate) snapshot: Option<(u64, Vec<u8>)>,
    /// Entries after it, in order.
    pub(crate) entries: Vec<(u64, Vec<u8>)>,
    /// The term that began with this opening.
    pub(crate) term: u64,
}

/// A log file. After a failed write the file is closed and opened again before the next one,
/// because redb refuses everything after an IO error.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    database: Option<Database>,
}

impl Log {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            database: None,
        }
    }

    /// Opens the file, begins a new term durably and reads what is there.
    pub(crate) fn open(&mut self) -> Result<Contents, Error> {
        let term = self.write(|tx| {
            tx.open_table(LOG)?;
            tx.open_table(SNAPSHOT)?;
            let mut meta = tx.open_table(META)?;
            let term = meta.get(TERM)?.map_or(0, |term| term.value()) + 1;
            meta.insert(TERM, term)?;
            Ok(term)
        })?;
        let (snapshot, entries) = self.read()?;
        Ok(Contents {
            snapshot,
            entries,
            term,
        })
    }

    /// Writes entries from `first` on, dropping whatever the file holds from there: leftovers
    /// of a write that was reported as failed. One sync.
    pub(crate) fn append(&mut self, first: u64, entries: &[Vec<u8>]) -> Result<(), Error> {
        let fresh = self.database.is_none();
        self.write(|tx| {
            let mut log = tx.open_table(LOG)?;
            if fresh {
                log.retain_in(first.., |_, _| false)?;
            }
            for (index, entry) in (first..).zip(entries) {
                log.insert(index, entry.as_slice())?;
            }
            Ok(())
        })
    }

    /// Replaces the snapshot and drops the entries it covers.
    pub(crate) fn compact(&mut self, index: u64, snapshot: &[u8]) -> Result<(), Error> {
        self.write(|tx| {
            let mut snapshots = tx.open_table(SNAPSHOT)?;
            snapshots.retain(|_, _| false)?;
            snapshots.insert(index, snapshot)?;
            tx.open_table(LOG)?.retain_in(..=index, |_, _| false)?;
            Ok(())
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn write<T>(
        &mut self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let result = self.database().and_then(|database| {
            let tx = database.begin_write()?;
            let value = change(&tx)?;
            tx.commit()?;
            Ok(value)
        });
        result.map_err(|error| {
            self.database = None;
            self.storage(error)
        })
    }

    fn database(&mut self) -> Result<&Database, redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => Builder::new()
                .set_cache_size(CACHE_BYTES)
                .create(&self.path)?,
        };
        Ok(self.database.insert(database))
    }

    #[allow(clippy::type_complexity)]
    fn read(&mut self) -> Result<(Option<(u64, Vec<u8>)>, Vec<(u64, Vec<u8>)>), Error> {
        let read = |database: &Database| -> Result<_, redb::Error> {
            let tx = database.begin_read()?;
            let snapshot = tx
                .open_table(SNAPSHOT)?
                .last()?
                .map(|(index, bytes)| (index.value(), bytes.value().to_vec()));
            let after = snapshot.as_ref().map_or(0, |(index, _)| *index);
            let mut entries = Vec::new();
            for item in tx.open_table(LOG)?.range(after + 1..)? {
                let (index, bytes) = item?;
                entries.push((index.value(), bytes.value().to_vec()));
            }
            Ok((snapshot, entries))
        };
        let result = self.database().and_then(read);
        result.map_err(|error| self.storage(error))
    }

    fn storage(&self, error: redb::Error) -> Error {
        Error::Storage {
            path: self.path.clone(),
            source: Box::new(error),
        }
    }
}
