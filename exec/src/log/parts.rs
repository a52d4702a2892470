//! The parts of a log as one: the older file, then the newer, after what was dropped before them.
//!
//! The writer completes a file, renames it to `NAME.1`, says how much is gone by that, and only then makes
//! the next one. So what is found before the file called `NAME` is another one belongs together.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use muster_init::task_dir::{DROPPED_SUFFIX, OLD_SUFFIX, TaskDir};

use super::file::open_plain;

/// So often the files are looked for while they are being rotated, with a pause between.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// An open file of a log.
#[derive(Debug)]
pub(super) struct OpenLogFile {
    pub(super) file: File,
    /// Bytes that it held when it was opened.
    pub(super) size: u64,
}

/// The open files of a log.
#[derive(Debug)]
pub(super) struct LogFiles {
    /// Bytes of the log that are not kept any more.
    pub(super) dropped: u64,
    /// The older file, which does not grow.
    pub(super) old: Option<OpenLogFile>,
    /// The newer one; none if the writer has ended before it made one.
    pub(super) new: Option<OpenLogFile>,
}

impl LogFiles {
    /// Opens what there is of the log called `name`. Blocks.
    pub(super) fn open(dir: &TaskDir, name: &str) -> io::Result<Self> {
        let new_path = dir.log().join(name);
        let old_path = dir.log().join(format!("{name}{OLD_SUFFIX}"));
        let dropped_path = dir.log().join(format!("{name}{DROPPED_SUFFIX}"));
        let mut tries = 0;
        loop {
            let new = open(&new_path)?;
            let old = open(&old_path)?;
            let dropped = number_in(&dropped_path);
            let inode = new.as_ref().map(|(_, inode)| *inode);
            let is_settled = inode.is_some() && inode == inode_at(&new_path)?;
            tries += 1;
            if !is_settled && (new.is_some() || old.is_some()) && tries < TRIES {
                std::thread::sleep(PAUSE);
                continue;
            }
            let (new, old) = (new.map(|(part, _)| part), old.map(|(part, _)| part));
            if new.is_none() && old.is_none() {
                return Err(ErrorKind::NotFound.into());
            }
            return Ok(Self { dropped, old, new });
        }
    }

    /// Bytes of the whole log, from its first to its last.
    pub(super) fn end(&self) -> u64 {
        let kept = [&self.old, &self.new].into_iter().flatten();
        self.dropped + kept.map(|part| part.size).sum::<u64>()
    }
}

/// Bytes of the whole log called `name`, from the first that was ever written; 0 if there is none. Blocks.
pub(crate) fn size(dir: &TaskDir, name: &str) -> u64 {
    LogFiles::open(dir, name).map_or(0, |files| files.end())
}

fn open(path: &Path) -> io::Result<Option<(OpenLogFile, u64)>> {
    let file = match open_plain(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    let size = metadata.len();
    Ok(Some((OpenLogFile { file, size }, metadata.ino())))
}

fn inode_at(path: &Path) -> io::Result<Option<u64>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A number in a file; 0 if there is none.
fn number_in(path: &Path) -> u64 {
    let text = open_plain(path).and_then(io::read_to_string);
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}
