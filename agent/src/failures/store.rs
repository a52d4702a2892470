//! The directory with a file for each kept failure.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::record::FailureRecord;
use super::retention::FailureName;
use crate::key_file::write_private;

/// Logs are users' data: root alone.
const MODE: u32 = 0o700;
/// A file that a crash left half written.
const UNFINISHED: &str = "new";

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FailureStore(PathBuf);

impl FailureStore {
    /// The one in this directory, which is made at the first failure.
    pub(crate) const fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// All failures with the bytes of their files, the oldest first.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn list(&self) -> io::Result<Vec<(FailureName, u64)>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let file = entry.file_name();
            if let Some(name) = file.to_str().and_then(FailureName::of_file) {
                match entry.metadata() {
                    Ok(metadata) => found.push((name, metadata.len())),
                    // It was dropped meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Removes what a crash left half written.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == UNFINISHED) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Writes a failure; answers the bytes of its file. On disk when this returns, as a whole or not at all.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&self, name: &FailureName, record: &FailureRecord) -> io::Result<u64> {
        let bytes = record.encode()?;
        DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(&self.0)?;
        write_private(&self.path(name), &bytes)?;
        Ok(bytes.len() as u64)
    }

    /// A failure; none if it was dropped meanwhile.
    ///
    /// # Errors
    /// When the disk refuses, or the file is damaged.
    pub(crate) fn read(&self, name: &FailureName) -> io::Result<Option<FailureRecord>> {
        match fs::read(self.path(name)) {
            Ok(bytes) => FailureRecord::decode(&bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a failure.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn remove(&self, name: &FailureName) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Where it is.
    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }

    fn path(&self, name: &FailureName) -> PathBuf {
        self.0.join(name.file())
    }
}
