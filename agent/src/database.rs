//! A redb file that survives errors: after one it is closed and opened again, because redb refuses
//! everything after an IO error.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::Builder;

/// Pages kept in memory: what an agent keeps of itself is small.
const CACHE_BYTES: usize = 1 << 20;

/// The file could not be read or written. Nothing of the call is part of it afterwards.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    /// The disk refuses, or something like it.
    #[error("cannot use {path}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<redb::Error>,
    },
    /// What the file holds is not what was written.
    #[error("{path} is damaged: {problem}; {remedy}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What redb says.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// It was closed for good.
    #[error("{path} is not in use any more")]
    Closed {
        /// The file.
        path: PathBuf,
    },
    /// Another release has written it.
    #[error(
        "{path} is of a format that this release does not read ({problem}); install the release \
         that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// What redb says.
        problem: String,
    },
}

/// The file, opened when it is needed and made if missing.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    /// What to do when it is damaged.
    remedy: &'static str,
    open: Option<redb::Database>,
    closed: bool,
}

impl Database {
    /// The file at `path`. `remedy` says what to do when it is damaged.
    pub(crate) fn new(path: &Path, remedy: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            remedy,
            open: None,
            closed: false,
        }
    }

    /// Lets go of the file for good: another may open it now, and whatever is done with this one
    /// fails.
    pub(crate) fn close(&mut self) {
        self.open = None;
        self.closed = true;
    }

    /// Does something with the open file.
    ///
    /// # Errors
    /// What `call` says, or that the file cannot be opened.
    pub(crate) fn with<T>(
        &mut self,
        call: impl FnOnce(&redb::Database) -> Result<T, redb::Error>,
    ) -> Result<T, DatabaseError> {
        if self.closed {
            return Err(DatabaseError::Closed {
                path: self.path.clone(),
            });
        }
        let (open, path) = (self.open.take(), &self.path);
        // redb panics on some pages that it cannot have written. Of what it has in hands then
        // nothing is used again.
        let done = catch_unwind(AssertUnwindSafe(|| {
            let database = match open {
                Some(database) => database,
                None => Builder::new().set_cache_size(CACHE_BYTES).create(path)?,
            };
            let value = call(&database)?;
            Ok((value, database))
        }));
        match done {
            Ok(Ok((value, database))) => {
                self.open = Some(database);
                Ok(value)
            }
            Ok(Err(error)) => Err(self.failure(error)),
            Err(panic) => Err(self.damaged(words(&*panic))),
        }
    }

    fn failure(&self, error: redb::Error) -> DatabaseError {
        match error {
            redb::Error::Corrupted(problem) => self.damaged(problem),
            redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.damaged(error.to_string())
            }
            redb::Error::UpgradeRequired(format) => DatabaseError::Format {
                path: self.path.clone(),
                problem: format!("version {format}"),
            },
            error if is_nonsense(&error) => self.damaged(error.to_string()),
            error => DatabaseError::Refused {
                path: self.path.clone(),
                source: Box::new(error),
            },
        }
    }

    fn damaged(&self, problem: String) -> DatabaseError {
        DatabaseError::Damaged {
            path: self.path.clone(),
            problem,
            remedy: self.remedy,
        }
    }
}

/// Whether tables are not what this release makes of them.
const fn is_nonsense(error: &redb::Error) -> bool {
    matches!(
        error,
        redb::Error::TableTypeMismatch { .. }
            | redb::Error::TableIsMultimap(_)
            | redb::Error::TableIsNotMultimap(_)
            | redb::Error::TypeDefinitionChanged { .. }
    )
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no word of why").to_owned()
}

#[cfg(test)]
mod tests {
    use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};

    use super::*;

    const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("table");

    fn written(path: &Path) -> Result<(), DatabaseError> {
        let mut database = Database::new(path, "move it away");
        database.with(|database| {
            let tx = database.begin_write()?;
            for key in 0..2_000_u64 {
                tx.open_table(TABLE)?.insert(key, &[7; 100][..])?;
            }
            tx.commit()?;
            Ok(())
        })
    }

    fn read(path: &Path) -> Result<usize, DatabaseError> {
        Database::new(path, "move it away").with(|database| {
            let table = database.begin_read()?.open_table(TABLE)?;
            let mut count = 0;
            for item in table.iter()? {
                count += item?.1.value().len() / 100;
            }
            Ok(count)
        })
    }

    /// Every page is damaged in its turn. What is not told of must not matter.
    #[test]
    fn damage_is_told_with_the_remedy_and_is_no_panic() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        written(&path).unwrap();
        let sound = std::fs::read(&path).unwrap();
        let mut told = 0;
        for at in (0..sound.len()).step_by(4096) {
            let mut damaged = sound.clone();
            damaged[at..at + 4].fill(0x5a);
            std::fs::write(&path, damaged).unwrap();
            match read(&path) {
                Ok(count) => assert_eq!(count, 2_000, "page at {at}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.ends_with("; move it away"), "page at {at}: {error:?}");
                    told += 1;
                }
            }
        }
        assert!(told > 0);
        std::fs::write(&path, &sound[..sound.len() / 2]).unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.ends_with("; move it away"), "{text}");
        std::fs::write(&path, "no database at all").unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.ends_with("; move it away"), "{text}");
    }

    #[test]
    fn a_table_of_another_kind_is_damage() {
        const OTHER: TableDefinition<'_, u64, u64> = TableDefinition::new("table");
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let written = Database::new(&path, "move it away").with(|database| {
            let tx = database.begin_write()?;
            tx.open_table(OTHER)?;
            Ok(tx.commit()?)
        });
        written.unwrap();
        let text = read(&path).unwrap_err().to_string();
        assert!(text.ends_with("; move it away"), "{text}");
    }
}
