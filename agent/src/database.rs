//! A redb file that survives errors: after one it is closed and opened again, because redb refuses
//! everything after an IO error.

use std::path::{Path, PathBuf};

use redb::Builder;

/// Pages kept in memory: what an agent keeps of itself is small.
const CACHE_BYTES: usize = 1 << 20;

/// The file could not be read or written. Nothing of the call is part of it afterwards.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}")]
pub(crate) struct Error {
    path: PathBuf,
    #[source]
    source: Box<redb::Error>,
}

/// The file, opened when it is needed and made if missing.
#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    open: Option<redb::Database>,
}

impl Database {
    /// The file at `path`.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            open: None,
        }
    }

    /// Does something with the open file.
    ///
    /// # Errors
    /// What `call` says, or that the file cannot be opened.
    pub(crate) fn with<T>(
        &mut self,
        call: impl FnOnce(&redb::Database) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let database = match self.open.take() {
            Some(database) => Ok(database),
            None => Builder::new()
                .set_cache_size(CACHE_BYTES)
                .create(&self.path)
                .map_err(Into::into),
        };
        let result = database.and_then(|database| {
            let value = call(&database)?;
            self.open = Some(database);
            Ok(value)
        });
        result.map_err(|error: redb::Error| Error {
            path: self.path.clone(),
            source: Box::new(error),
        })
    }
}
