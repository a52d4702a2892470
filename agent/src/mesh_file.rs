//! What a member keeps on disk: records, its incarnation, documents' bodies, and how often a
//! document was being put in force when the agent died. One redb file.

use std::path::Path;
use std::sync::Arc;

use muster_gossip::frame::DocumentRef;
use muster_gossip::member::Incarnation;
use muster_gossip::record::{DocumentId, Record, RecordKey};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};

use crate::database::Database;
pub(crate) use crate::database::DatabaseError;

const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const BODIES: TableDefinition<'_, (u16, u64), &[u8]> = TableDefinition::new("bodies");
/// How often this version was about to be put in force without surviving it.
const TRIALS: TableDefinition<'_, (u16, u64), u32> = TableDefinition::new("trials");
/// The version in force.
const ACTIVE: TableDefinition<'_, u16, u64> = TableDefinition::new("active");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// What to do when the file is damaged.
const REMEDY: &str = "have another member expel this node (`muster cluster expel`), move the \
                      directory it lies in away, start the agent and join again";
const INCARNATION: &str = "incarnation";

/// A document's version with its body.
pub(crate) type StoredBody = (DocumentRef, Arc<[u8]>);

/// The file.
#[derive(Debug)]
pub(crate) struct MeshFile(Database);

impl MeshFile {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(crate) fn open(path: &Path) -> Result<Self, DatabaseError> {
        let mut file = Self(Database::new(path, REMEDY));
        file.write(|tx| {
            tx.open_table(RECORDS)?;
            tx.open_table(BODIES)?;
            tx.open_table(TRIALS)?;
            tx.open_table(ACTIVE)?;
            tx.open_table(META)?;
            Ok(())
        })?;
        Ok(file)
    }

    /// Lets go of the file for good. What is still done with it fails.
    pub(crate) fn close(&mut self) {
        self.0.close();
    }

    /// The incarnation of this start: one more than of any before, on disk when this returns.
    ///
    /// # Errors
    /// When the disk refuses: an agent must not start with an incarnation it may forget.
    pub(crate) fn raise_incarnation(&mut self) -> Result<Incarnation, DatabaseError> {
        self.write(|tx| {
            let mut meta = tx.open_table(META)?;
            let last = meta.get(INCARNATION)?.map_or(0, |last| last.value());
            meta.insert(INCARNATION, last + 1)?;
            Ok(Incarnation(last + 1))
        })
    }

    /// Every record that can be read. One that cannot is told of and left out: the mesh brings
    /// it again.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn records(&mut self) -> Result<Vec<Arc<Record>>, DatabaseError> {
        self.read(|tx| {
            let mut records = Vec::new();
            for item in tx.open_table(RECORDS)?.iter()? {
                let (key, bytes) = item?;
                match Record::decode(bytes.value()) {
                    Ok(record) => records.push(Arc::new(record)),
                    Err(error) => {
                        tracing::warn!(key = key.value(), %error, "a kept record is damaged");
                    }
                }
            }
            Ok(records)
        })
    }

    /// Replaces the records of these keys, all or none. On disk when this returns.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn keep(&mut self, records: &[Arc<Record>]) -> Result<(), DatabaseError> {
        self.write(|tx| {
            let mut table = tx.open_table(RECORDS)?;
            for record in records {
                table.insert(number(record.key), record.bytes())?;
            }
            Ok(())
        })
    }

    /// A document's body.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn body(
        &mut self,
        document: DocumentRef,
    ) -> Result<Option<Arc<[u8]>>, DatabaseError> {
        self.read(|tx| {
            let table = tx.open_table(BODIES)?;
            let body = table.get((document.id.0, document.version))?;
            Ok(body.map(|body| body.value().into()))
        })
    }

    /// All bodies that are kept.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn bodies(&mut self) -> Result<Vec<StoredBody>, DatabaseError> {
        self.read(|tx| {
            let mut bodies = Vec::new();
            for item in tx.open_table(BODIES)?.iter()? {
                let (key, body) = item?;
                bodies.push((reference(key.value()), body.value().into()));
            }
            Ok(bodies)
        })
    }

    /// Keeps a body. On disk when this returns.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn keep_body(
        &mut self,
        document: DocumentRef,
        body: &[u8],
    ) -> Result<(), DatabaseError> {
        self.write(|tx| {
            let key = (document.id.0, document.version);
            tx.open_table(BODIES)?.insert(key, body)?;
            Ok(())
        })
    }

    /// Removes the bodies of a document but these versions.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn retain_bodies(
        &mut self,
        id: DocumentId,
        keep: &[u64],
    ) -> Result<(), DatabaseError> {
        self.write(|tx| {
            let stays = |key: (u16, u64)| key.0 != id.0 || keep.contains(&key.1);
            tx.open_table(BODIES)?.retain(|key, _| stays(key))?;
            tx.open_table(TRIALS)?.retain(|key, _| stays(key))?;
            Ok(())
        })
    }

    /// Notes that a version is about to be put in force, and says how often that was noted
    /// without [`MeshFile::survived`] after it, this time not counted.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn try_out(&mut self, document: DocumentRef) -> Result<u32, DatabaseError> {
        let key = (document.id.0, document.version);
        self.write(|tx| {
            let mut trials = tx.open_table(TRIALS)?;
            let before = trials.get(key)?.map_or(0, |count| count.value());
            trials.insert(key, before.saturating_add(1))?;
            Ok(before)
        })
    }

    /// Notes that the agent lives on with this version in force.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn survived(&mut self, document: DocumentRef) -> Result<(), DatabaseError> {
        self.write(|tx| {
            let key = (document.id.0, document.version);
            tx.open_table(TRIALS)?.remove(key)?;
            tx.open_table(ACTIVE)?
                .insert(document.id.0, document.version)?;
            Ok(())
        })
    }

    /// The last version of a document that the agent survived.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn last_good(&mut self, id: DocumentId) -> Result<Option<u64>, DatabaseError> {
        self.read(|tx| {
            let table = tx.open_table(ACTIVE)?;
            Ok(table.get(id.0)?.map(|version| version.value()))
        })
    }

    /// The same with its body, if that is here.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn last_good_body(
        &mut self,
        id: DocumentId,
    ) -> Result<Option<StoredBody>, DatabaseError> {
        let Some(version) = self.last_good(id)? else {
            return Ok(None);
        };
        let document = DocumentRef { id, version };
        Ok(self.body(document)?.map(|body| (document, body)))
    }

    fn read<T>(
        &mut self,
        call: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, DatabaseError> {
        self.0.with(|database| call(&database.begin_read()?))
    }

    fn write<T>(
        &mut self,
        call: impl FnOnce(&redb::WriteTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, DatabaseError> {
        self.0.with(|database| {
            let tx = database.begin_write()?;
            let value = call(&tx)?;
            tx.commit()?;
            Ok(value)
        })
    }
}

const fn reference((id, version): (u16, u64)) -> DocumentRef {
    DocumentRef {
        id: DocumentId(id),
        version,
    }
}

/// A key as a number that no other key has.
const fn number(key: RecordKey) -> u64 {
    let (kind, number) = match key {
        RecordKey::Cluster => (0, 0),
        RecordKey::Member(member) => (1, member.0),
        RecordKey::Node(member) => (2, member.0),
        RecordKey::Watch(member) => (3, member.0),
        RecordKey::Document(id) => (4, id.0 as u32),
        RecordKey::Replacement => (5, 0),
    };
    (kind << 32) | number as u64
}

#[cfg(test)]
mod tests {
    use muster_gossip::member::MemberId;

    use super::*;
    use crate::mesh::unsigned;

    fn record(key: RecordKey, number: u64) -> Arc<Record> {
        unsigned::record(key, number, &number)
    }

    const RULES: DocumentId = DocumentId(1);

    fn rules(version: u64) -> DocumentRef {
        DocumentRef { id: RULES, version }
    }

    #[test]
    fn records_and_incarnation_outlive_the_agent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mesh.redb");
        let mut file = MeshFile::open(&path).unwrap();
        assert_eq!(file.raise_incarnation().unwrap(), Incarnation(1));
        let member = RecordKey::Member(MemberId(7));
        let node = RecordKey::Node(MemberId(7));
        let kept = [record(member, 1), record(node, 1)];
        file.keep(&kept).unwrap();
        file.keep(&[record(node, 2)]).unwrap();
        drop(file);
        let mut file = MeshFile::open(&path).unwrap();
        assert_eq!(file.raise_incarnation().unwrap(), Incarnation(2));
        let records = file.records().unwrap();
        assert_eq!(records, [record(member, 1), record(node, 2)]);
    }

    #[test]
    fn bodies_are_kept_until_they_are_not_wanted() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = MeshFile::open(&dir.path().join("mesh.redb")).unwrap();
        for version in 1..4 {
            file.keep_body(rules(version), b"text").unwrap();
        }
        file.retain_bodies(RULES, &[3]).unwrap();
        assert_eq!(file.body(rules(2)).unwrap(), None);
        assert_eq!(file.body(rules(3)).unwrap().as_deref(), Some(&b"text"[..]));
        assert_eq!(file.bodies().unwrap().len(), 1);
    }

    #[test]
    fn trials_count_until_one_is_survived() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mesh.redb");
        for expect in 0..3 {
            let mut file = MeshFile::open(&path).unwrap();
            assert_eq!(file.try_out(rules(2)).unwrap(), expect);
        }
        let mut file = MeshFile::open(&path).unwrap();
        assert_eq!(file.last_good(RULES).unwrap(), None);
        file.survived(rules(2)).unwrap();
        assert_eq!(file.last_good(RULES).unwrap(), Some(2));
        assert_eq!(file.try_out(rules(2)).unwrap(), 0);
    }
}
