//! A log file of bounded size, with one older part. It is cut where a line ends.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use nix::fcntl::{OFlag, PosixFadviseAdvice, openat, posix_fadvise, renameat};
use nix::sys::stat::Mode;

use super::time_index::TimeIndex;
use crate::task_dir::{DROPPED_SUFFIX, OLD_SUFFIX};
use crate::wall_clock::now_ms;

/// After so many bytes the page cache is told to forget what was written before.
const CACHE_BYTES: u64 = 8 << 20;
/// A file is cut so much before it is full, if a line ends there.
const LINE_BYTES: u64 = 64 << 10;

/// A file that begins anew when it is full.
#[derive(Debug)]
pub(crate) struct RotatingFile {
    dir: Rc<OwnedFd>,
    name: String,
    bytes_max: u64,
    file: Option<File>,
    size: u64,
    /// Bytes of the older part.
    old_size: u64,
    /// Bytes that were in parts before that.
    dropped: u64,
    /// Its last byte ends a line.
    ends_line: bool,
    /// The next byte goes into the next file.
    full: bool,
    /// Where the part of it begins whose write-back was not begun yet.
    cached_from: u64,
    times: TimeIndex,
}

impl RotatingFile {
    /// The file `name` in `dir`. It is made with the first byte, or by [`RotatingFile::touch`].
    pub(crate) fn new(dir: &Rc<OwnedFd>, name: &str, bytes_max: u64) -> Self {
        Self {
            dir: Rc::clone(dir),
            name: name.to_owned(),
            bytes_max: bytes_max.max(1),
            file: None,
            size: 0,
            old_size: 0,
            dropped: 0,
            ends_line: true,
            full: false,
            cached_from: 0,
            times: TimeIndex::default(),
        }
    }

    /// Makes the file, so that readers find it before the first output.
    pub(crate) fn touch(&mut self) -> io::Result<()> {
        self.open().map(drop)
    }

    /// Appends, over as many files as needed. Returns the bytes that could not be written.
    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> u64 {
        while !bytes.is_empty() {
            match self.write_some(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        bytes.len() as u64
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?;
        if self.full || self.part_of(bytes).is_empty() {
            self.rotate()?;
        }
        // Without it readers find no time in the log, and nothing else goes wrong.
        let place = self.dropped + self.old_size + self.size;
        drop(self.times.note(&self.dir, &self.name, (place, now_ms())));
        let part = self.part_of(bytes);
        let count = match &mut self.file {
            Some(file) => file.write(part)?,
            None => 0,
        };
        if count == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        self.size += count as u64;
        self.ends_line = part[..count].ends_with(b"\n");
        self.full = self.size >= self.bytes_max || (self.size >= self.soft_max() && self.ends_line);
        self.full |= count == part.len() && count < bytes.len();
        self.spare_cache();
        Ok(count)
    }

    /// From here on it is cut where a line ends.
    fn soft_max(&self) -> u64 {
        self.bytes_max - LINE_BYTES.min(self.bytes_max / 8)
    }

    /// What of `bytes` goes into this file: all, or up to the last line that ends in it. Nothing, if none
    /// does and a line begins here. A line that is longer than a file is cut where the file is full.
    fn part_of<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let room = |max: u64| usize::try_from(max.saturating_sub(self.size)).unwrap_or(usize::MAX);
        if bytes.len() <= room(self.soft_max()) {
            return bytes;
        }
        let fits = &bytes[..bytes.len().min(room(self.bytes_max))];
        match fits.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => &fits[..=end],
            None if self.ends_line && self.size > 0 => &[],
            None => fits,
        }
    }

    fn open(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let flags = OFlag::O_WRONLY
                | OFlag::O_APPEND
                | OFlag::O_CREAT
                | OFlag::O_NOFOLLOW
                | OFlag::O_CLOEXEC;
            let file = openat(&*self.dir, self.name.as_str(), flags, mode())?;
            let file = File::from(file);
            self.size = file.metadata()?.len();
            self.ends_line = self.size == 0;
            self.full = self.size >= self.bytes_max;
            self.cached_from = self.size;
            self.file = Some(file);
        }
        Ok(())
    }

    /// Followers count on the order: the old file is complete before it is renamed, and it has
    /// its new name before the next one is there.
    fn rotate(&mut self) -> io::Result<()> {
        let old = format!("{}{OLD_SUFFIX}", self.name);
        renameat(&*self.dir, self.name.as_str(), &*self.dir, old.as_str())?;
        self.dropped += self.old_size;
        self.old_size = self.size;
        self.file = None;
        // Without it readers do not hear that something is missing, and nothing else goes wrong.
        drop(self.note_dropped());
        drop(self.times.rotate(&self.dir, &self.name));
        self.open()
    }

    /// Says how much is gone. Before the next file is there: readers take it as true of the file that
    /// they find.
    fn note_dropped(&self) -> io::Result<()> {
        if self.dropped == 0 {
            return Ok(());
        }
        let (name, new) = (
            format!("{}{DROPPED_SUFFIX}", self.name),
            format!("{}{DROPPED_SUFFIX}.new", self.name),
        );
        let flags = OFlag::O_WRONLY
            | OFlag::O_CREAT
            | OFlag::O_TRUNC
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC;
        let file = openat(&*self.dir, new.as_str(), flags, mode())?;
        File::from(file).write_all(self.dropped.to_string().as_bytes())?;
        Ok(renameat(
            &*self.dir,
            new.as_str(),
            &*self.dir,
            name.as_str(),
        )?)
    }

    /// Keeps a big log from pushing other tasks' data out of the page cache: begins to write
    /// back the newest part, without waiting, and forgets those before it.
    fn spare_cache(&mut self) {
        let Some(file) = &self.file else { return };
        if self.size - self.cached_from < CACHE_BYTES {
            return;
        }
        let (from, length) = (
            offset(self.cached_from),
            offset(self.size - self.cached_from),
        );
        // SAFETY: takes a descriptor that is open and three numbers; touches no memory of ours.
        #[allow(unsafe_code)]
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), from, length, libc::SYNC_FILE_RANGE_WRITE);
        }
        // Both are hints: a file system that does not know them loses nothing.
        let _ = posix_fadvise(file, 0, from, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
        self.cached_from = self.size;
    }
}

/// Readable by root and its group alone.
pub(super) fn mode() -> Mode {
    Mode::S_IRUSR | Mode::S_IWUSR | Mode::S_IRGRP
}

fn offset(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_last_bytes_are_kept_in_two_files_of_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let fd = Rc::new(OwnedFd::from(File::open(dir.path()).unwrap()));
        let mut file = RotatingFile::new(&fd, "all", 10);
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        for (write, old, new) in [
            ("01234", "", "01234"),
            ("56789", "", "0123456789"),
            ("a", "0123456789", "a"),
            ("bcdefghijklmnopqrstu", "abcdefghij", "klmnopqrst"),
        ] {
            let cut = &write[..write.len().min(20 - usize::from(write.len() > 10))];
            assert_eq!(file.write(cut.as_bytes()), 0);
            assert_eq!((read("all.1").as_str(), read("all").as_str()), (old, new));
        }
    }

    #[test]
    fn it_is_cut_where_a_line_ends_and_says_how_much_is_gone() {
        let check = |bytes_max: u64, writes: &[&str], old: &str, new: &str, dropped: &str| {
            let dir = tempfile::tempdir().unwrap();
            let fd = Rc::new(OwnedFd::from(File::open(dir.path()).unwrap()));
            let mut file = RotatingFile::new(&fd, "all", bytes_max);
            for write in writes {
                assert_eq!(file.write(write.as_bytes()), 0);
            }
            let read = |name| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
            assert_eq!(
                (read("all.1").as_str(), read("all").as_str()),
                (old, new),
                "{writes:?}"
            );
            assert_eq!(read("all.dropped"), dropped, "{writes:?}");
        };
        check(
            16,
            &["one\ntwo\nthree\nfour\n"],
            "one\ntwo\nthree\n",
            "four\n",
            "",
        );
        // Lines that come in pieces.
        check(
            16,
            &["one\ntw", "o\nthr", "ee\nfo", "ur\n"],
            "one\ntwo\nthree\n",
            "four\n",
            "",
        );
        check(
            16,
            &["one\ntwo\nthree\n", "four\n"],
            "one\ntwo\nthree\n",
            "four\n",
            "",
        );
        check(
            16,
            &["one\n", "a line of 16 b.\n"],
            "one\n",
            "a line of 16 b.\n",
            "",
        );
        // A line longer than a file.
        check(
            16,
            &["0123456789abcdefghijkl\nmn\n"],
            "0123456789abcdef",
            "ghijkl\nmn\n",
            "",
        );
        check(
            16,
            &["one\n", "0123456789abcdefg"],
            "0123456789abcdef",
            "g",
            "4",
        );
        check(
            16,
            &["one\ntwo\nthree\nfour\nfive\nsix\nseven\n"],
            "four\nfive\nsix\n",
            "seven\n",
            "14",
        );
    }

    #[test]
    fn many_pieces_of_many_lengths_are_all_kept_and_no_line_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let fd = Rc::new(OwnedFd::from(File::open(dir.path()).unwrap()));
        let mut file = RotatingFile::new(&fd, "all", 1 << 20);
        let text: String = (0..120_000).map(|n| format!("line {n}\n")).collect();
        let mut rest = text.as_bytes();
        for length in (1..).map(|n| n * 7919 % 5_003) {
            let (piece, after) = rest.split_at(length.min(rest.len()));
            assert_eq!(file.write(piece), 0);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        let read = |name| fs::read_to_string(dir.path().join(name)).unwrap_or_default();
        let (old, new) = (read("all.1"), read("all"));
        assert!(old.ends_with('\n') && old.len() <= 1 << 20, "{}", old.len());
        let kept = old + &new;
        let dropped = read("all.dropped").parse().unwrap_or(0);
        assert_eq!(text.len() - kept.len(), dropped);
        assert!(text.ends_with(&kept));
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_rest_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let fd = Rc::new(OwnedFd::from(File::open(dir.path()).unwrap()));
        let mut file = RotatingFile::new(&fd, "all", 10);
        fs::create_dir(dir.path().join("all")).unwrap();
        assert_eq!(file.write(b"lost"), 4);
        fs::remove_dir(dir.path().join("all")).unwrap();
        assert_eq!(file.write(b"kept"), 0);
        assert_eq!(fs::read(dir.path().join("all")).unwrap(), b"kept");
    }
}
