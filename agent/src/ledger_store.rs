//! The node ledger on disk: small keyed records in one redb file, changed in batches of one
//! sync each.

use std::path::Path;

use muster_control::fence::LedgerEpoch;
use muster_control::ledger::LedgerChange;
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use crate::database::Database;
pub(crate) use crate::database::DatabaseError;

const RECORDS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("ledger");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// What to do when the file is damaged.
const REMEDY: &str = "move it away, and start the agent: tasks that run on this machine are ended, \
                      and their jobs start anew, uncharged";
const EPOCH: &str = "epoch";

/// The file.
#[derive(Debug)]
pub(crate) struct LedgerStore(Database);

impl LedgerStore {
    /// Opens the file and gives the ledger's epoch. A new file gets `fresh_epoch`.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(crate) fn open(
        path: &Path,
        fresh_epoch: u64,
    ) -> Result<(Self, LedgerEpoch), DatabaseError> {
        let mut store = Self(Database::new(path, REMEDY));
        let epoch = store.0.with(|database| {
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
    pub(crate) fn records(&mut self) -> Result<Vec<(String, Vec<u8>)>, DatabaseError> {
        self.0.with(|database| {
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
    pub(crate) fn write(&mut self, changes: &[LedgerChange]) -> Result<(), DatabaseError> {
        self.0.with(|database| {
            let tx = database.begin_write()?;
            {
                let mut table = tx.open_table(RECORDS)?;
                for change in changes {
                    match change {
                        LedgerChange::Put { key, value } => {
                            table.insert(key.as_str(), value.as_slice())?;
                        }
                        LedgerChange::Delete { key } => {
                            table.remove(key.as_str())?;
                        }
                    }
                }
            }
            tx.commit()?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: u8) -> LedgerChange {
        LedgerChange::Put {
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
            .write(&[put("a", 3), LedgerChange::Delete { key: "b".into() }])
            .unwrap();
        drop(store);
        let (mut store, epoch) = LedgerStore::open(&path, 8).unwrap();
        assert_eq!(epoch, LedgerEpoch(7));
        assert_eq!(store.records().unwrap(), [("a".to_owned(), vec![3])]);
    }
}
