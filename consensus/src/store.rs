//! The log store of a node: what all its replicas have promised, in one file.

mod checksums;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, WriteTransaction,
};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use self::checksums::ChecksumVerdict;
use crate::id::{GroupId, ReplicaId, StoreId};
use crate::voting::Voting;
use crate::write::{Promise, StoredChange, Write};

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

/// What to do where a release is at fault.
const OTHER_RELEASE: &str = "install the release that ran here before";

/// The store could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk refused. Nothing of the write is part of the store afterwards.
    #[error("cannot use {path}")]
    Storage {
        /// The file.
        path: PathBuf,
        /// What the disk says.
        #[source]
        source: Box<redb::Error>,
    },
    /// What holds it together is not what was written: the disk has lost or changed it.
    #[error("{path} is damaged: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// redb can make nothing of it, and no checksum tells that it is damaged.
    #[error("{path} cannot be used: {problem}; {verdict}")]
    Doubtful {
        /// The file.
        path: PathBuf,
        /// What redb says.
        problem: String,
        /// What its checksums say, and what to do.
        verdict: String,
    },
    /// A later release has written it. Nothing that it holds was changed.
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
pub enum StoredGroup {
    /// A copy, whole.
    Replica(Stored),
    /// A copy, damaged.
    Damaged(Damaged),
    /// Copies up to this number were here and are no more.
    Gone(GroupId, ReplicaId),
}

/// What is kept of a replica besides its log.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum ReplicaRow {
    Here(ReplicaId, Promise),
    Gone(ReplicaId),
}

/// The store. After a failure its file is opened again before it is used again, because redb refuses
/// everything after an IO error.
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
    /// [`StoreError`] when it cannot be read or written, or is damaged.
    pub fn open(path: &Path, fresh: StoreId) -> Result<Self, StoreError> {
        let refused = |source: io::Error| StoreError::Storage {
            path: path.to_owned(),
            source: Box::new(source.into()),
        };
        checksums::forget(path);
        if !path.try_exists().map_err(refused)? {
            let whole = path.with_extension("new");
            Self::make(&whole, fresh)?;
            std::fs::rename(&whole, path).map_err(refused)?;
            let directory = File::open(path.parent().unwrap_or(path));
            directory.and_then(|it| it.sync_all()).map_err(refused)?;
        }
        let open = || builder().open(path);
        Self::begin(path, open, None)
    }

    /// Makes a file that gets its name once it is whole: so one of that name that holds nothing is damaged.
    fn make(path: &Path, fresh: StoreId) -> Result<(), StoreError> {
        // Of a start that did not get far. What is left of it is found by what follows.
        let _ = std::fs::remove_file(path);
        let create = || builder().create(path);
        Self::begin(path, create, Some(fresh)).map(drop)
    }

    /// The same on something that is no file.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read or written.
    pub fn on(backend: impl StorageBackend, fresh: StoreId) -> Result<Self, StoreError> {
        let open = || builder().create_with_backend(backend);
        Self::begin(Path::new("the log store"), open, Some(fresh))
    }

    fn begin(
        path: &Path,
        open: impl FnOnce() -> Result<Database, redb::DatabaseError>,
        fresh: Option<StoreId>,
    ) -> Result<Self, StoreError> {
        let mut store = Self {
            path: path.to_owned(),
            id: StoreId(0),
            database: None,
        };
        let begun = sound(|| {
            let mut database = open()?;
            let names = names(&database, fresh)?;
            if names.0 != FORMAT_NOW {
                // It is of another release, or damaged.
                database.check_integrity()?;
            }
            Ok((database, names))
        });
        let (database, (format, id)) = begun.map_err(|error| store.error(error))?;
        store.database = Some(database);
        if format != FORMAT_NOW {
            return Err(StoreError::Format {
                path: path.to_owned(),
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
    /// When the disk refuses, or the file is damaged. Nothing of it is kept then, and the caller may try again.
    pub fn write(&mut self, write: &Write) -> Result<(), StoreError> {
        self.write_with(|tx| {
            for kept in &write.changes {
                keep(tx, kept)?;
            }
            Ok(())
        })
    }

    fn write_with<T>(
        &mut self,
        change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        self.attempt(|database| committed(database, change))
    }

    /// All that is here.
    ///
    /// # Errors
    /// When the disk refuses, or the file is damaged as a whole. What else it gives but is not what was
    /// written is not an error: it is [`StoredGroup::Damaged`], and only of its group.
    pub fn load(&mut self) -> Result<Vec<StoredGroup>, StoreError> {
        let store = self.id;
        self.attempt(|database| {
            let found = found(database, store)?;
            // Where rows are known to be damaged the others may go on all the same.
            if !found
                .iter()
                .any(|found| matches!(found, StoredGroup::Damaged(_)))
            {
                // What redb has for itself: the first write would stumble over it. It is made anew.
                database.check_integrity()?;
            }
            Ok(found)
        })
    }

    fn attempt<T>(
        &mut self,
        task: impl FnOnce(&mut Database) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let mut database = self.database().map_err(|failure| self.error(failure))?;
        // A panic drops it as well: redb writes nothing then, so that what is wrong in the file stays there to
        // be seen. Closed later it would write damaged pages again, with checksums that are right.
        let (result, database) = sound(move || Ok((task(&mut database), database)))
            .map_err(|failure| self.error(failure))?;
        self.database = Some(database);
        result.map_err(|error| {
            self.close();
            self.error(error.into())
        })
    }

    /// Takes the open file, or opens it.
    fn database(&mut self) -> Result<Database, RedbFailure> {
        match self.database.take() {
            Some(database) => Ok(database),
            None => sound(|| Ok(builder().open(&self.path)?)),
        }
    }

    fn close(&mut self) {
        let database = self.database.take();
        // There is nobody who could do anything about it: the next one to open the file will be told.
        let _ = sound(|| {
            drop(database);
            Ok(())
        });
    }

    fn error(&self, failure: RedbFailure) -> StoreError {
        let path = self.path.clone();
        match failure {
            RedbFailure::Panicked(problem) => unusable(path, format!("redb panicked: {problem}")),
            RedbFailure::Refused(error) if is_damage(&error) => unusable(path, error.to_string()),
            RedbFailure::Refused(error) => StoreError::Storage {
                path,
                source: Box::new(error),
            },
        }
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Says whether a file that redb can make nothing of is damaged, or redb at fault. No machine may part with its
/// file for the latter: a release with such a fault would make all of them do so.
fn unusable(path: PathBuf, problem: String) -> StoreError {
    let verdict = match checksums::look(&path) {
        ChecksumVerdict::Wrong(problem) => return StoreError::Damaged { path, problem },
        ChecksumVerdict::Right { of_last: true } => {
            format!("all checksums in it are right: {OTHER_RELEASE}")
        }
        ChecksumVerdict::Right { of_last: false } => {
            "but for those of its last write the checksums in it are right, and what begins anew goes \
             by the write before"
                .to_owned()
        }
        ChecksumVerdict::NoRoom(why) => {
            format!("to see whether it is damaged, make room for a copy of it beside it ({why})")
        }
        ChecksumVerdict::Unknown(why) => {
            format!("its checksums cannot be looked at ({why}): {OTHER_RELEASE}")
        }
    };
    StoreError::Doubtful {
        path,
        problem,
        verdict,
    }
}

/// Whether redb takes the file for damaged. Anything else may pass: a disk that is full, a file that is in use.
fn is_damage(error: &redb::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, UnexpectedEof};
    match error {
        redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableDoesNotExist(_) => true,
        redb::Error::Io(error) => matches!(error.kind(), InvalidData | UnexpectedEof),
        _ => false,
    }
}

/// What kept redb from doing something.
enum RedbFailure {
    Refused(redb::Error),
    Panicked(String),
}

impl From<redb::Error> for RedbFailure {
    fn from(error: redb::Error) -> Self {
        Self::Refused(error)
    }
}

/// Does something with a file that may be damaged: redb panics on some pages that it cannot have written.
fn sound<T>(task: impl FnOnce() -> Result<T, redb::Error>) -> Result<T, RedbFailure> {
    // Of what it has in hands nothing is used again.
    match catch_unwind(AssertUnwindSafe(task)) {
        Ok(result) => Ok(result?),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("no word of why");
            Err(RedbFailure::Panicked(text.to_owned()))
        }
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Makes a change durable.
fn committed<T>(
    database: &Database,
    change: impl FnOnce(&WriteTransaction) -> Result<T, redb::Error>,
) -> Result<T, redb::Error> {
    let mut tx = database.begin_write()?;
    tx.set_durability(Durability::Immediate)?;
    let value = change(&tx)?;
    tx.commit()?;
    Ok(value)
}

/// Format and identity. A new file gets them, and its tables; another one is not written, for that might
/// hide what is damaged.
fn names(database: &Database, fresh: Option<StoreId>) -> Result<(u64, u64), redb::Error> {
    let tx = database.begin_read()?;
    if tx.list_tables()?.next().is_some() {
        let meta = tx.open_table(META)?;
        let name = |key: &str| {
            let value = meta.get(key)?.map(|value| value.value());
            value.ok_or_else(|| redb::Error::Corrupted(format!("it has no {key}")))
        };
        return Ok((name(FORMAT)?, name(STORE)?));
    }
    let nothing = || redb::Error::Corrupted("it holds nothing".to_owned());
    let fresh = fresh.ok_or_else(nothing)?;
    committed(database, |tx| {
        let mut meta = tx.open_table(META)?;
        meta.insert(FORMAT, FORMAT_NOW)?;
        meta.insert(STORE, fresh.0)?;
        tx.open_table(REPLICAS)?;
        tx.open_table(SNAPSHOTS)?;
        tx.open_table(ENTRIES)?;
        Ok((FORMAT_NOW, fresh.0))
    })
}

/// All that is here of groups, by what the store of this identity holds.
fn found(database: &Database, store: StoreId) -> Result<Vec<StoredGroup>, redb::Error> {
    let tx = database.begin_read()?;
    let mut found = Vec::new();
    let mut here = BTreeSet::new();
    for row in tx.open_table(REPLICAS)?.iter()? {
        let (group, bytes) = row?;
        let group = GroupId(group.value());
        let row = unsealed(&[group.0, 0], bytes.value())
            .and_then(|bytes| postcard::from_bytes(bytes).map_err(|error| error.to_string()));
        here.insert(group.0);
        found.push(match row {
            Ok(ReplicaRow::Gone(replica)) => StoredGroup::Gone(group, replica),
            Ok(ReplicaRow::Here(replica, promise)) => {
                Rows::read(&tx, group)?.found((group, replica), promise, store)
            }
            Err(problem) => nameless(&tx, group, problem, store)?,
        });
    }
    for row in tx.open_table(SNAPSHOTS)?.iter()? {
        let (group, _) = row?;
        if here.insert(group.value()) {
            let problem = "nothing says which copy it is".to_owned();
            found.push(nameless(&tx, GroupId(group.value()), problem, store)?);
        }
    }
    Ok(found)
}

/// A copy of which it is not known which one it was: none comes back.
fn nameless(
    tx: &redb::ReadTransaction,
    group: GroupId,
    problem: String,
    store: StoreId,
) -> Result<StoredGroup, redb::Error> {
    Ok(StoredGroup::Damaged(Damaged {
        group,
        replica: ReplicaId::LAST,
        voting: Rows::read(tx, group)?.voting(store, 0),
        problem,
    }))
}

fn keep(tx: &WriteTransaction, kept: &StoredChange) -> Result<(), redb::Error> {
    match kept {
        StoredChange::Promise(group, replica, promise) => {
            put_row(tx, *group, ReplicaRow::Here(*replica, *promise))
        }
        StoredChange::Entries(group, first, entries) => {
            let mut table = tx.open_table(ENTRIES)?;
            let void = (group.0, first + entries.len() as u64)..=(group.0, u64::MAX);
            table.retain_in(void, |_, _| false)?;
            for (index, entry) in (*first..).zip(entries) {
                let sealed = sealed(&[group.0, index], entry);
                table.insert((group.0, index), sealed.as_slice())?;
            }
            Ok(())
        }
        StoredChange::Snapshot { group, bytes, keep } => {
            let sealed = sealed(&[group.0, 1], bytes);
            tx.open_table(SNAPSHOTS)?
                .insert(group.0, sealed.as_slice())?;
            let until = keep.unwrap_or(u64::MAX);
            forget(tx, *group, until)
        }
        StoredChange::Gone(group, replica) => {
            tx.open_table(SNAPSHOTS)?.remove(group.0)?;
            forget(tx, *group, u64::MAX)?;
            put_row(tx, *group, ReplicaRow::Gone(*replica))
        }
    }
}

fn put_row(tx: &WriteTransaction, group: GroupId, row: ReplicaRow) -> Result<(), redb::Error> {
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
    knows_snapshot: bool,
}

impl Rows {
    fn read(tx: &redb::ReadTransaction, group: GroupId) -> Result<Self, redb::Error> {
        let mut rows = Self {
            snapshot: Vec::new(),
            entries: Vec::new(),
            problem: None,
            knows_snapshot: true,
        };
        if let Some(bytes) = tx.open_table(SNAPSHOTS)?.get(group.0)? {
            match unsealed(&[group.0, 1], bytes.value()) {
                Ok(snapshot) => rows.snapshot = snapshot.to_vec(),
                Err(problem) => {
                    rows.knows_snapshot = false;
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
        if !self.knows_snapshot {
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
    ) -> StoredGroup {
        match self.problem.clone() {
            Some(problem) => StoredGroup::Damaged(Damaged {
                group,
                replica,
                problem,
                voting: self.voting(store, promise.commit),
            }),
            None => StoredGroup::Replica(Stored {
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
