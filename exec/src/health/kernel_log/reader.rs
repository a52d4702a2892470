//! The reader of `/dev/kmsg`, from a cursor on.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::KernelEvent;
use super::boot::Boot;
use super::lines::Unfinished;
use super::record::KmsgRecord;

/// A record has at most 8 KiB in today's kernels.
const RECORD_BYTES_MAX: usize = 32 * 1024;
/// Records that one call reads at most.
const RECORDS_MAX: usize = 4096;

/// Up to where the log has been read. It is worth keeping over restarts, together with what was
/// made of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLogCursor {
    /// The boot that the numbers are of.
    pub boot_id: String,
    /// The number of the record to read next.
    pub next: u64,
    /// What has been read of events that are not complete.
    #[serde(default)]
    pub unfinished: Unfinished,
}

/// Why the log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum KernelLogError {
    /// It cannot be opened.
    #[error("the kernel log {} cannot be opened; run the agent as root", path.display())]
    Unopened {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot be read.
    #[error("the kernel log {} cannot be read", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What was read at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelLogRead {
    /// What was reported, in the order of the log.
    pub events: Vec<KernelEvent>,
    /// How many records were overwritten before they could be read.
    pub lost: u64,
    /// Whether there is more to read at once.
    pub more: bool,
}

/// The kernel's log, open.
#[derive(Debug)]
pub struct KernelLog {
    path: PathBuf,
    file: File,
    /// The kernel gives one record for each read; a plain file, for tests, gives bytes.
    is_device: bool,
    boot_ms: u64,
    cursor: KernelLogCursor,
    /// Whether a gap before the next record is one of records that were overwritten.
    gap_is_loss: bool,
    /// When everything that was logged had been read, milliseconds since the epoch.
    caught_up_ms: Option<u64>,
    bytes: Vec<u8>,
}

/// What one read gave.
enum KmsgRead {
    Record(Vec<u8>),
    Overwritten,
    End,
}

impl KernelLog {
    /// Opens the log, `/dev/kmsg` on a machine. Without a cursor, or with one of an earlier
    /// boot, it is read from its first record on.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(
        path: &Path,
        boot: &Boot,
        cursor: Option<KernelLogCursor>,
    ) -> Result<Self, KernelLogError> {
        let unopened = |source| KernelLogError::Unopened {
            path: path.to_owned(),
            source,
        };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(unopened)?;
        let kind = file.metadata().map_err(unopened)?.file_type();
        let of_boot = cursor.filter(|cursor| cursor.boot_id == boot.id);
        Ok(Self {
            path: path.to_owned(),
            is_device: kind.is_char_device(),
            file,
            boot_ms: boot.at_ms,
            cursor: of_boot.unwrap_or_else(|| KernelLogCursor {
                boot_id: boot.id.clone(),
                ..KernelLogCursor::default()
            }),
            gap_is_loss: true,
            caught_up_ms: None,
            bytes: Vec::new(),
        })
    }

    /// Up to where the log has been read.
    pub fn cursor(&self) -> &KernelLogCursor {
        &self.cursor
    }

    /// Reads what has been logged since the last call. It does not wait.
    ///
    /// The kernel counts time since boot by a clock that may lose seconds in a day. What was
    /// logged since a call that read all there was is therefore put between that call and now.
    ///
    /// # Errors
    /// When the log cannot be read. The cursor is where it was before the record that failed.
    pub fn read(&mut self) -> Result<KernelLogRead, KernelLogError> {
        let mut read = KernelLogRead::default();
        let now_ms = now_ms();
        for _ in 0..RECORDS_MAX {
            let next = self.next().map_err(|source| KernelLogError::Unread {
                path: self.path.clone(),
                source,
            })?;
            match next {
                KmsgRead::Record(record) => self.take(&record, now_ms, &mut read),
                KmsgRead::Overwritten => self.gap_is_loss = true,
                KmsgRead::End => {
                    self.caught_up_ms = Some(now_ms);
                    return Ok(read);
                }
            }
        }
        read.more = true;
        Ok(read)
    }

    fn take(&mut self, bytes: &[u8], now_ms: u64, read: &mut KernelLogRead) {
        let Some(record) = KmsgRecord::parse(bytes) else {
            return;
        };
        if record.sequence < self.cursor.next {
            return;
        }
        if std::mem::take(&mut self.gap_is_loss) {
            read.lost += record.sequence - self.cursor.next;
        }
        self.cursor.next = record.sequence + 1;
        let earliest_ms = self.caught_up_ms.unwrap_or(0);
        for mut event in self.cursor.unfinished.take(&record, self.boot_ms) {
            event.at_ms = event.at_ms.max(earliest_ms).min(now_ms);
            read.events.push(event);
        }
    }

    fn next(&mut self) -> io::Result<KmsgRead> {
        if self.is_device {
            self.next_of_device()
        } else {
            self.next_of_file()
        }
    }

    fn next_of_device(&mut self) -> io::Result<KmsgRead> {
        self.bytes.resize(RECORD_BYTES_MAX, 0);
        loop {
            return match self.file.read(&mut self.bytes) {
                Ok(0) => Ok(KmsgRead::End),
                Ok(len) => Ok(KmsgRead::Record(self.bytes[..len].to_vec())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(KmsgRead::End),
                // The kernel then goes on with the oldest record that it still has.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    Ok(KmsgRead::Overwritten)
                }
                Err(error) => Err(error),
            };
        }
    }

    /// A record of a plain file ends where a line begins that is no note.
    fn next_of_file(&mut self) -> io::Result<KmsgRead> {
        self.file.read_to_end(&mut self.bytes)?;
        let Some(first) = end_of_line(&self.bytes, 0) else {
            return Ok(KmsgRead::End);
        };
        let mut end = first;
        while self.bytes.get(end) == Some(&b' ') {
            let Some(next) = end_of_line(&self.bytes, end) else {
                break;
            };
            end = next;
        }
        Ok(KmsgRead::Record(self.bytes.drain(..end).collect()))
    }
}

/// The machine's clock, milliseconds since the epoch.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// Where the line that begins at `from` ends, after its line feed.
fn end_of_line(bytes: &[u8], from: usize) -> Option<usize> {
    let len = memchr::memchr(b'\n', bytes.get(from..)?)?;
    Some(from + len + 1)
}

impl AsFd for KernelLog {
    /// For a loop that waits until there is more to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
