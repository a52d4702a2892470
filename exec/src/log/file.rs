//! The log files of one task.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use muster_init::task_dir::{LOG_FILES, OLD_SUFFIX, TaskDir};

use super::LogError;

/// One file of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// `all`, `stdout`, `stderr`, `runtime.log`, each also with `.1` for the older part.
    pub name: String,
    /// Bytes it holds now.
    pub size: u64,
}

/// The files that a task has, in a fixed order. Empty if it has no logs here.
pub fn list(dir: &TaskDir) -> Vec<LogFile> {
    let log = dir.log();
    names()
        .filter_map(|name| {
            let metadata = fs::symlink_metadata(log.join(&name)).ok()?;
            metadata.is_file().then_some(LogFile {
                name,
                size: metadata.len(),
            })
        })
        .collect()
}

fn names() -> impl Iterator<Item = String> {
    LOG_FILES
        .iter()
        .flat_map(|name| [(*name).to_owned(), format!("{name}{OLD_SUFFIX}")])
}

/// The path of a log that may be asked for by that name.
pub(super) fn path_of(dir: &TaskDir, name: &str) -> Result<PathBuf, LogError> {
    match names().any(|known| known == name) {
        true => Ok(dir.log().join(name)),
        false => Err(LogError::NoLog(name.to_owned())),
    }
}

/// Opens a plain file for reading. A link or anything that could block is refused.
pub(super) fn open_plain(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}
