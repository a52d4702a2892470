//! A log file of bounded size, with one older part.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use nix::fcntl::{OFlag, PosixFadviseAdvice, openat, posix_fadvise, renameat};
use nix::sys::stat::Mode;

use crate::task_dir::OLD_SUFFIX;

/// After so many bytes the page cache is told to forget what was written before.
const CACHE_BYTES: u64 = 8 << 20;

/// A file that begins anew when it is full.
#[derive(Debug)]
pub(crate) struct RotatingFile {
    dir: Rc<OwnedFd>,
    name: String,
    bytes_max: u64,
    file: Option<File>,
    size: u64,
    /// Where the part of it begins whose write-back was not begun yet.
    cached_from: u64,
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
            cached_from: 0,
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
        if self.size >= self.bytes_max {
            self.rotate()?;
        }
        let room = usize::try_from(self.bytes_max - self.size).unwrap_or(usize::MAX);
        let part = &bytes[..bytes.len().min(room)];
        let count = match &mut self.file {
            Some(file) => file.write(part)?,
            None => 0,
        };
        if count == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        self.size += count as u64;
        self.spare_cache();
        Ok(count)
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
        self.file = None;
        self.open()
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
fn mode() -> Mode {
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
