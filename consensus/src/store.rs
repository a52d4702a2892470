//! The log store of a node: what all its replicas have promised, in one file.

use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::id::{GroupId, ReplicaId, StoreId};
use crate::voting::Voting;
use crate::write::{Kept, Promise, Write};

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const REPLICAS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("replicas");
const SNAPSHOTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("snapshots");
const ENTRIES: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("entries");

const STORE: &str = "store";
const FORMAT: &str = "format";
/// What this release writes and reads.
const FORMAT_NOW: u64 = 1;
/// Pages kept in memory: the log is written at its end and read once, at start.
const CACHE_BYTES: usize = 2 << 20;
const CHECK_BYTES: usize = size_of::<u64>();

/// The store could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused. Nothing of the write is part of the store afterwards.
    #[error("cannot use {path}")]
    Storage {
        /// The file.
        path: PathBuf,
        /// What the disk says.
        #[source]
        source: Box<redb::Error>,
    },
    /// A later release has written it. Nothing was changed.
    #[error(
        "{path} is of format {found}, and this release reads {FORMAT_NOW}; install the newer one"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u64,
    },
}

/// What a store holds of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The group.
    pub group: GroupId,
    /// The copy here.
    pub replica: ReplicaId,
    /// What it promised.
    pub promise: Promise,
    /// Raft's snapshot; empty for a copy that never had one.
    pub snapshot: Vec<u8>,
    /// The log, from its first entry on. Some may be older than the snapshot.
    pub entries: Vec<Vec<u8>>,
}

impl Stored {
    /// Who votes in its group besides this copy, which lies in `store`.
    pub fn voting(&self, store: StoreId) -> Voting {
        let entries = self.entries.iter().map(Vec::as_slice);
        Voting::of(store, &self.snapshot, entries, self.promise.commit)
    }
}

/// A copy that must make no promise any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The group.
    pub group: GroupId,
    /// The copy here; [`ReplicaId::LAST`] if that cannot be read.
    pub replica: ReplicaId,
    /// What is wrong with it.
    pub problem: String,
    /// Who votes in its group besides, as far as that can be read.
    pub voting: Voting,
}

/// What a store says of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A copy, whole.
    Replica(Stored),
    /// A copy, damaged.
    Damaged(Damaged),
    /// Copies up to this number were here and are no more.
    Gone(GroupId, ReplicaId),
}

/// What is kept of a replica besides its log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Row {
    Here(ReplicaId, Promise),
    Gone(ReplicaId),
}

/// The store. After a failed write its file is opened again before the next one, because redb
/// refuses everything after an IO error.
#[derive(Debug)]
pub struct LogStore {
    path: PathBuf,
    id: StoreId,
    database: Option<Database>,
}

impl LogStore {
    /// Opens the file, or makes it with the identity `fresh`, a random number.
    ///
    /// # Errors
    /// [`Error`] when it cannot be read or written.
    pub fn open(path: &Path, fresh: StoreId) -> Result<Self, Error> {
        let database = Builder::new().set_cache_size(CACHE_BYTES).create(path);
        Self::begin(path, database, fresh)
    }

    /// The same on something that is no file.
    ///
    /// # Errors
    /// [`Error`] when it cannot be read or written.
    pub fn on(backend: impl StorageBackend, fresh: StoreId) -> Result<Self, Error> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend);
        Self::begin(Path::new("the log store"), database, fresh)
    }

    fn begin(
        path: &Path,
        database: Result<Database, redb::DatabaseError>,
        fresh: StoreId,
    ) -> Result<Self, Error> {
        let mut store = Self {
            path: path.to_owned(),
            id: fresh,
            database: None,
        };
        store.database = Some(database.map_err(|error| store.error(error.into()))?);
        let (format, id) = store.write_with(|tx| {
            let mut meta = tx.open_table(META)?;
            let format = first_or(&mut meta, FORMAT, FORMAT_NOW)?;
            let id = first_or(&mut meta, STORE, fresh.0)?;
            tx.open_table(REPLICAS)?;
            tx.open_table(SNAPSHOTS)?;
            tx.open_table(ENTRIES)?;
            Ok((format, id))
        })?;
        if format != FORMAT_NOW {
            return Err(Error::Format {
                path: store.path,
                found: format,
            });
        }
        store.id = StoreId(id);
        Ok(store)
    }

    /// Which store this is.
    pub const fn id(&self) -> StoreId {
        self.id
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes changes durable, all or none, with one sync.
    ///
    /// # Errors
    /// When the disk refuses. Nothing of it is kept then, and the caller may try again.
    pub fn write(&mut self, write: &Write) -> Result<(), Error> {
        self.write_with(|tx| {
            for kept in &write.changes {
                keep(tx, kept)?;
            }
            Ok(())
        })
    }

    /// All that is here.
    ///
    /// # Errors
    /// When the disk refuses. What it gives but is not what was written is not an error: it is
    /// [`Found::Damaged`], and only of its group.
    pub fn load(&mut self) -> Result<Vec<Found>, Error> {
        let store = self.id;
        let read = |database: &Database| -> Result<_, redb::Error> {
            let tx = database.begin_read()?;
            let mut found = Vec::new();
            for row in tx.open_table(REPLICAS)?.iter()? {
                let (group, bytes) = row?;
                let group = GroupId(group.value());
                let row = unsealed(&[group.0, 0], bytes.value()).and_then(|bytes| {
                    postcard::from_bytes(bytes).map_err(|error| error.to_string())
                });
                found.push(match row {
                    Ok(Row::Gone(replica)) => Found::Gone(group, replica),
                    Ok(Row::Here(replica, promise)) => {
                        Rows::read(&tx, group)?.found((group, replica), promise, store)
                    }
                    // Which copy it was is not known either: none comes back.
                    Err(problem) => Found::Damaged(Damaged {
                        group,
                        replica: ReplicaId::LAST,
                        voting: Rows::read(&tx, group)?.voting(store, 0),
                        problem,
                    }),
                });
            }
            Ok(found)
        };
        let result = self.database().and_then(read);
        result.map_err(|error| self.error(error))
    }

    fn write_with<T>(
        &mut self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let result = self.database().and_then(|database| {
            let mut tx = database.begin_write()?;
            tx.set_durability(Durability::Immediate)?;
            let value = change(&tx)?;
            tx.commit()?;
            Ok(value)
        });
        result.map_err(|error| {
            self.database = None;
            self.error(error)
        })
    }

    fn database(&mut self) -> Result<&Database, redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => Builder::new()
                .set_cache_size(CACHE_BYTES)
                .open(&self.path)?,
        };
        Ok(self.database.insert(database))
    }

    fn error(&self, error: redb::Error) -> Error {
        Error::Storage {
            path: self.path.clone(),
            source: Box::new(error),
        }
    }
}

/// What the table holds under `key`, put there if it holds nothing.
fn first_or(
    table: &mut redb::Table<'_, &str, u64>,
    key: &str,
    fresh: u64,
) -> Result<u64, redb::Error> {
    let there = table.get(key)?.map(|value| value.value());
    if there.is_none() {
        table.insert(key, fresh)?;
    }
    Ok(there.unwrap_or(fresh))
}

fn keep(tx: &WriteTransaction, kept: &Kept) -> Result<(), redb::Error> {
    match kept {
        Kept::Promise(group, replica, promise) => {
            put_row(tx, *group, Row::Here(*replica, *promise))
        }
        Kept::Entries(group, first, entries) => {
            let mut table = tx.open_table(ENTRIES)?;
            let void = (group.0, first + entries.len() as u64)..=(group.0, u64::MAX);
            table.retain_in(void, |_, _| false)?;
            for (index, entry) in (*first..).zip(entries) {
                let sealed = sealed(&[group.0, index], entry);
                table.insert((group.0, index), sealed.as_slice())?;
            }
            Ok(())
        }
        Kept::Snapshot { group, bytes, keep } => {
            let sealed = sealed(&[group.0, 1], bytes);
            tx.open_table(SNAPSHOTS)?
                .insert(group.0, sealed.as_slice())?;
            let until = keep.unwrap_or(u64::MAX);
            forget(tx, *group, until)
        }
        Kept::Gone(group, replica) => {
            tx.open_table(SNAPSHOTS)?.remove(group.0)?;
            forget(tx, *group, u64::MAX)?;
            put_row(tx, *group, Row::Gone(*replica))
        }
    }
}

fn put_row(tx: &WriteTransaction, group: GroupId, row: Row) -> Result<(), redb::Error> {
    // Plain numbers: encoding them cannot fail.
    let bytes = postcard::to_stdvec(&row).unwrap_or_default();
    let sealed = sealed(&[group.0, 0], &bytes);
    tx.open_table(REPLICAS)?
        .insert(group.0, sealed.as_slice())?;
    Ok(())
}

/// Drops entries before this index.
fn forget(tx: &WriteTransaction, group: GroupId, until: u64) -> Result<(), redb::Error> {
    let mut table = tx.open_table(ENTRIES)?;
    table.retain_in((group.0, 0)..(group.0, until), |_, _| false)?;
    Ok(())
}

/// The snapshot and the entries of a group, as far as they are what was written.
struct Rows {
    snapshot: Vec<u8>,
    entries: Vec<Vec<u8>>,
    /// What is wrong with the first that is not.
    problem: Option<String>,
    has_snapshot: bool,
}

impl Rows {
    fn read(tx: &redb::ReadTransaction, group: GroupId) -> Result<Self, redb::Error> {
        let mut rows = Self {
            snapshot: Vec::new(),
            entries: Vec::new(),
            problem: None,
            has_snapshot: true,
        };
        if let Some(bytes) = tx.open_table(SNAPSHOTS)?.get(group.0)? {
            match unsealed(&[group.0, 1], bytes.value()) {
                Ok(snapshot) => rows.snapshot = snapshot.to_vec(),
                Err(problem) => {
                    rows.has_snapshot = false;
                    rows.problem = Some(format!("its snapshot: {problem}"));
                }
            }
        }
        let all = (group.0, 0)..=(group.0, u64::MAX);
        for row in tx.open_table(ENTRIES)?.range(all)? {
            let (key, bytes) = row?;
            let (_, index) = key.value();
            match unsealed(&[group.0, index], bytes.value()) {
                Ok(entry) => rows.entries.push(entry.to_vec()),
                Err(problem) => {
                    let problem = format!("entry {index}: {problem}");
                    rows.problem.get_or_insert(problem);
                }
            }
        }
        Ok(rows)
    }

    /// Who votes besides the copy in `store`, which knew entries up to `commit` to be committed.
    fn voting(&self, store: StoreId, commit: u64) -> Voting {
        if !self.has_snapshot {
            return Voting::Unknown;
        }
        let entries = self.entries.iter().map(Vec::as_slice);
        Voting::of(store, &self.snapshot, entries, commit)
    }

    fn found(
        self,
        (group, replica): (GroupId, ReplicaId),
        promise: Promise,
        store: StoreId,
    ) -> Found {
        match self.problem.clone() {
            Some(problem) => Found::Damaged(Damaged {
                group,
                replica,
                problem,
                voting: self.voting(store, promise.commit),
            }),
            None => Found::Replica(Stored {
                group,
                replica,
                promise,
                snapshot: self.snapshot,
                entries: self.entries,
            }),
        }
    }
}

/// Bytes with a check over them and over where they belong.
fn sealed(place: &[u64; 2], bytes: &[u8]) -> Vec<u8> {
    let mut sealed = check(place, bytes).to_vec();
    sealed.extend_from_slice(bytes);
    sealed
}

fn unsealed<'a>(place: &[u64; 2], sealed: &'a [u8]) -> Result<&'a [u8], String> {
    let parts = sealed.split_at_checked(CHECK_BYTES);
    let good = parts.filter(|(sum, bytes)| check(place, bytes) == *sum);
    let (_, bytes) = good.ok_or("it is not what was written")?;
    Ok(bytes)
}

fn check(place: &[u64; 2], bytes: &[u8]) -> [u8; CHECK_BYTES] {
    let mut all: Vec<u8> = place.iter().flat_map(|part| part.to_le_bytes()).collect();
    all.extend_from_slice(bytes);
    xxh3_64(&all).to_le_bytes()
}

#[cfg(test)]
mod tests;
