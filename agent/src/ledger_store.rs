//! The node ledger on disk: small keyed records in one redb file, changed in batches of one
//! sync each.

use std::path::{Path, PathBuf};

use muster_control::fence::LedgerEpoch;
use muster_control::ledger::Change;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};

const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("ledger");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const EPOCH: &str = "epoch";

/// Pages kept in memory: a ledger is as small as its node.
const CACHE_BYTES: usize = 1 << 20;

/// The ledger could not be read or written. Nothing of the call is part of it afterwards.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}")]
pub(crate) struct Error {
    path: PathBuf,
    #[source]
    source: Box<redb::Error>,
}

/// The file. After an error it is closed and opened again, because redb refuses everything
/// after an IO error.
#[derive(Debug)]
pub(crate) struct LedgerStore {
    path: PathBuf,
    database: Option<Database>,
}

impl LedgerStore {
    /// Opens the file and gives the ledger's epoch. A new file gets `fresh_epoch`.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(crate) fn open(path: &Path, fresh_epoch: u64) -> Result<(Self, LedgerEpoch), Error> {
        let mut store = Self {
            path: path.to_owned(),
            database: None,
        };
        let epoch = store.with(|database| {
            let tx = database.begin_write()?;
            tx.open_table(RECORDS)?;
            let epoch = {
                let mut meta = tx.open_table(META)?;
                let known = meta.get(EPOCH)?.map(|epoch| epoch.value());
                match known {
                    Some(epoch) => epoch,
                    None => {
                        meta.insert(EPOCH, fresh_epoch)?;
                        fresh_epoch
                    }
                }
            };
            tx.commit()?;
            Ok(epoch)
        })?;
        Ok((store, LedgerEpoch(epoch)))
    }

    /// Every record.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn records(&mut self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.with(|database| {
            let tx = database.begin_read()?;
            let table = tx.open_table(RECORDS)?;
            let mut records = Vec::new();
            for item in table.iter()? {
                let (key, value) = item?;
                records.push((key.value().to_owned(), value.value().to_vec()));
            }
            Ok(records)
        })
    }

    /// Makes the changes durable, all or none.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&mut self, changes: &[Change]) -> Result<(), Error> {
        self.with(|database| {
            let tx = database.begin_write()?;
            {
                let mut table = tx.open_table(RECORDS)?;
                for change in changes {
                    match change {
                        Change::Put { key, value } => {
                            table.insert(key.as_str(), value.as_slice())?;
                        }
                        Change::Delete { key } => {
                            table.remove(key.as_str())?;
                        }
                    }
                }
            }
            tx.commit()?;
            Ok(())
        })
    }

    fn with<T>(
        &mut self,
        call: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let database = match self.database.take() {
            Some(database) => Ok(database),
            None => Builder::new()
                .set_cache_size(CACHE_BYTES)
                .create(&self.path)
                .map_err(Into::into),
        };
        let result = database.and_then(|database| {
            let value = call(&database)?;
            self.database = Some(database);
            Ok(value)
        });
        result.map_err(|error: redb::Error| Error {
            path: self.path.clone(),
            source: Box::new(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: u8) -> Change {
        Change::Put {
            key: key.into(),
            value: vec![value],
        }
    }

    #[test]
    fn records_and_epoch_outlive_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.redb");
        let (mut store, epoch) = LedgerStore::open(&path, 7).unwrap();
        assert_eq!(epoch, LedgerEpoch(7));
        store.write(&[put("a", 1), put("b", 2)]).unwrap();
        store
            .write(&[put("a", 3), Change::Delete { key: "b".into() }])
            .unwrap();
        drop(store);
        let (mut store, epoch) = LedgerStore::open(&path, 8).unwrap();
        assert_eq!(epoch, LedgerEpoch(7));
        assert_eq!(store.records().unwrap(), [("a".to_owned(), vec![3])]);
    }
}
