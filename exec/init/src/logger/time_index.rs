//! Says when which byte of a log was written: a record of 16 bytes at a time, the byte's place in the whole log
//! and the time, milliseconds since the epoch, both little-endian.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;

use nix::fcntl::{OFlag, openat, renameat};

use super::rotating_file::mode;
use crate::task_dir::{OLD_SUFFIX, TIMES_SUFFIX};

/// Output that follows a record sooner gets none of its own.
const PAUSE_LEAST_MS: u64 = 1_000;
/// Less output gets none either, unless so much time has passed. So the index is never more than a small part
/// of the log, or grows by some 140 kB a day.
const BYTES_LEAST: u64 = 4 << 10;
const PAUSE_MOST_MS: u64 = 10_000;

/// The index of one log file.
#[derive(Debug, Default)]
pub(super) struct TimeIndex {
    file: Option<File>,
    /// The last record: place and time.
    last: Option<(u64, u64)>,
}

impl TimeIndex {
    /// Notes that the byte at `place` is written at `now_ms`, if it is time for a record.
    pub(super) fn note(
        &mut self,
        dir: &OwnedFd,
        name: &str,
        (place, now_ms): (u64, u64),
    ) -> io::Result<()> {
        if !self.is_due(place, now_ms) {
            return Ok(());
        }
        let mut record = [0; 16];
        record[..8].copy_from_slice(&place.to_le_bytes());
        record[8..].copy_from_slice(&now_ms.to_le_bytes());
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(open(dir, name)?),
        };
        file.write_all(&record)?;
        self.last = Some((place, now_ms));
        Ok(())
    }

    /// A clock that was set back gets no record until it has caught up: readers search by time.
    fn is_due(&self, place: u64, now_ms: u64) -> bool {
        let Some((last_place, last_ms)) = self.last else {
            return true;
        };
        let since = now_ms.saturating_sub(last_ms);
        let bytes = place.saturating_sub(last_place);
        since >= PAUSE_MOST_MS || (since >= PAUSE_LEAST_MS && bytes >= BYTES_LEAST)
    }

    /// The log goes on in its next file, and the index likewise.
    pub(super) fn rotate(&mut self, dir: &OwnedFd, name: &str) -> io::Result<()> {
        self.file = None;
        let new = format!("{name}{TIMES_SUFFIX}");
        let old = format!("{new}{OLD_SUFFIX}");
        Ok(renameat(dir, new.as_str(), dir, old.as_str())?)
    }
}

fn open(dir: &OwnedFd, name: &str) -> io::Result<File> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let name = format!("{name}{TIMES_SUFFIX}");
    Ok(File::from(openat(dir, name.as_str(), flags, mode())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sparse_and_never_go_back_in_time() {
        let home = tempfile::tempdir().unwrap();
        let dir = OwnedFd::from(File::open(home.path()).unwrap());
        let mut index = TimeIndex::default();
        for (place, ms) in [
            (0, 5_000),
            // Too soon, then too little, then a clock that was set back.
            (9_000, 5_999),
            (100, 14_999),
            (200, 15_000),
            (90_000, 1_000),
            (90_000, 16_000),
        ] {
            index.note(&dir, "all", (place, ms)).unwrap();
        }
        index.rotate(&dir, "all").unwrap();
        index.note(&dir, "all", (200_000, 20_000)).unwrap();
        let read = |name: &str| {
            let bytes = std::fs::read(home.path().join(name)).unwrap();
            let number = |part: &[u8]| u64::from_le_bytes(part.try_into().unwrap());
            let records = bytes.chunks(16);
            records
                .map(|it| (number(&it[..8]), number(&it[8..])))
                .collect::<Vec<_>>()
        };
        let old = [(0, 5_000), (200, 15_000), (90_000, 16_000)];
        assert_eq!(read("all.times.1"), old);
        assert_eq!(read("all.times"), [(200_000, 20_000)]);
    }
}
