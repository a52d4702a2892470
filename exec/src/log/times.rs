//! When which byte of a log was written, as far as its logger has noted it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use muster_init::task_dir::{OLD_SUFFIX, TIMES_SUFFIX, TaskDir};

use super::file::open_plain;

/// Bytes of a record.
const RECORD_BYTES: u64 = 16;

/// A byte of a log and when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeMark {
    /// The byte, counted from the first that was ever written.
    pub(super) offset: u64,
    /// Milliseconds since the epoch.
    pub(super) at_ms: u64,
}

/// The open index of one log, in the order of its records.
#[derive(Debug)]
pub(super) struct TimeMarks {
    /// The files with their numbers of records.
    files: Vec<(File, u64)>,
}

impl TimeMarks {
    /// Opens what there is. Blocks.
    pub(super) fn open(dir: &TaskDir, name: &str) -> Self {
        let new = format!("{name}{TIMES_SUFFIX}");
        let old = format!("{new}{OLD_SUFFIX}");
        let opened = [old, new].into_iter().filter_map(|name| {
            let file = open_plain(&dir.log().join(name)).ok()?;
            let records = file.metadata().ok()?.len() / RECORD_BYTES;
            Some((file, records))
        });
        Self {
            files: opened.collect(),
        }
    }

    /// The last record not after this time; the first of all if there is none before. None without records.
    pub(super) fn at_time(&self, at_ms: u64) -> io::Result<Option<TimeMark>> {
        let found = self.last(|mark| mark.at_ms <= at_ms)?;
        match found {
            None if self.len() > 0 => self.get(0).map(Some),
            found => Ok(found),
        }
    }

    /// The last record not after this byte.
    pub(super) fn at_offset(&self, offset: u64) -> io::Result<Option<TimeMark>> {
        self.last(|mark| mark.offset <= offset)
    }

    /// The last record that fits, where all before it do as well.
    fn last(&self, fits: impl Fn(&TimeMark) -> bool) -> io::Result<Option<TimeMark>> {
        let (mut low, mut high) = (0, self.len());
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let mark = self.get(middle)?;
            if fits(&mark) {
                found = Some(mark);
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(found)
    }

    fn len(&self) -> u64 {
        self.files.iter().map(|(_, records)| records).sum()
    }

    fn get(&self, mut nth: u64) -> io::Result<TimeMark> {
        for (file, records) in &self.files {
            if nth < *records {
                let (mut offset, mut at_ms) = ([0; 8], [0; 8]);
                file.read_exact_at(&mut offset, nth * RECORD_BYTES)?;
                file.read_exact_at(&mut at_ms, nth * RECORD_BYTES + 8)?;
                return Ok(TimeMark {
                    offset: u64::from_le_bytes(offset),
                    at_ms: u64::from_le_bytes(at_ms),
                });
            }
            nth -= records;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_leads_to_the_byte_that_was_written_then() {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        let none = TimeMarks::open(&dir, "all");
        assert_eq!(none.at_time(5).unwrap(), None);
        let write = |name: &str, marks: &[(u64, u64)]| {
            let bytes = marks.iter().flat_map(|(offset, ms)| [*offset, *ms]);
            let bytes: Vec<u8> = bytes.flat_map(u64::to_le_bytes).collect();
            std::fs::write(dir.log().join(name), bytes).unwrap();
        };
        write("all.times.1", &[(0, 100), (50, 200)]);
        write("all.times", &[(90, 300)]);
        let marks = TimeMarks::open(&dir, "all");
        for (ms, offset) in [(1, 0), (100, 0), (199, 0), (200, 50), (299, 50), (999, 90)] {
            let mark = marks.at_time(ms).unwrap().unwrap();
            assert_eq!(mark.offset, offset, "{ms}");
        }
        for (offset, ms) in [(0, 100), (49, 100), (50, 200), (89, 200), (500, 300)] {
            let mark = marks.at_offset(offset).unwrap().unwrap();
            assert_eq!(mark.at_ms, ms, "{offset}");
        }
    }
}
