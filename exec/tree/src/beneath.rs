//! Files below a directory, reached one name at a time. No link is followed, so no path leads out of the directory.
//!
//! Not by openat2(2), which systemd keeps from services with `RestrictSUIDSGID`.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};

/// Names of files that are not whole yet begin so. Trees leave them out.
pub const PARTIAL_PREFIX: &str = ".muster-part-";
/// Permissions of a file that is being written.
const PARTIAL_MODE: Mode = Mode::from_raw_mode(0o600);

/// A directory, which was opened.
#[derive(Debug)]
pub struct Beneath(OwnedFd);

/// A file in a directory, of which no more than its name is known: the directory, and the name.
#[derive(Debug)]
pub struct BeneathPlace {
    /// The directory.
    pub directory: Beneath,
    /// The name in it; none: the directory itself is meant.
    pub name: Option<String>,
}

/// The names on the way of a path, which counts from the directory where it begins.
///
/// # Errors
/// `InvalidInput` for `..`, `.` and a zero byte.
pub fn names(path: &str) -> io::Result<Vec<&str>> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let is_bad = |name: &&str| matches!(*name, "." | "..") || name.contains('\0');
    match names.iter().find(|name| is_bad(name)) {
        None => Ok(names),
        Some(name) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not taken in a path: write names, with / between them"),
        )),
    }
}

impl Beneath {
    /// A directory that is open.
    pub const fn of(directory: OwnedFd) -> Self {
        Self(directory)
    }

    /// Opens a directory by a path that is trusted.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// The directory of this name in it.
    ///
    /// # Errors
    /// `NotADirectory` for a link too.
    pub fn directory(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let name = name.as_ref();
        let opened = rustix::fs::openat(&self.0, name, flags, Mode::empty());
        opened
            .map(Self)
            .map_err(|error| self.told(name, error.into()))
    }

    /// Where a path leads: the directory of its last name.
    ///
    /// # Errors
    /// Those of [`names`], and where a directory on the way is not there or is none.
    pub fn place(&self, path: &str) -> io::Result<BeneathPlace> {
        let mut names = names(path)?;
        let name = names.pop().map(str::to_owned);
        let mut directory = self.again()?;
        for name in names {
            directory = directory.directory(name)?;
        }
        Ok(BeneathPlace { directory, name })
    }

    /// The same directory once more.
    fn again(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// What a file is, a link being a link.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn stat(&self, name: impl AsRef<OsStr>) -> io::Result<Stat> {
        Ok(rustix::fs::statat(
            &self.0,
            name.as_ref(),
            AtFlags::SYMLINK_NOFOLLOW,
        )?)
    }

    /// What the directory itself is.
    ///
    /// # Errors
    /// Those of stat(2).
    pub fn own_stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.0, "", AtFlags::EMPTY_PATH)?)
    }

    /// Whether there is a directory of this name, which is no link.
    pub fn has_directory(&self, name: &str) -> bool {
        self.stat(name)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// A regular file, to be read.
    ///
    /// # Errors
    /// `InvalidInput` for what is no regular file, and those of open(2).
    pub fn file(&self, name: impl AsRef<OsStr>) -> io::Result<(File, Metadata)> {
        // Without NONBLOCK a pipe would wait for its other end.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let name = name.as_ref();
        let opened = rustix::fs::openat(&self.0, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|error| self.told(name, error.into()))?);
        let metadata = file.metadata()?;
        match metadata.is_file() {
            true => Ok((file, metadata)),
            false if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            false => Err(odd(name, "is no regular file")),
        }
    }

    /// A file that becomes whole under another name: made, or opened if there is one of `name`.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn partial(&self, name: &str, is_new: bool) -> io::Result<File> {
        let mut flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        flags.set(OFlags::EXCL, is_new);
        let opened = rustix::fs::openat(&self.0, name, flags, PARTIAL_MODE);
        let file = File::from(opened.map_err(|error| self.told(name.as_ref(), error.into()))?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(odd(name.as_ref(), "is no regular file")),
        }
    }

    /// Makes a directory, unless there is one.
    ///
    /// # Errors
    /// Those of mkdir(2), and `NotADirectory` where something else has the name.
    pub fn make_directory(&self, name: &str, mode: u32) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode & 0o777)) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => self.directory(name).map(drop),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// Those of symlink(2).
    pub fn make_link(&self, name: &str, target: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// Those of readlink(2).
    pub fn link_target(&self, name: impl AsRef<OsStr>) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.0, name.as_ref(), Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Gives a file in the directory another name in it. What has that name is replaced.
    ///
    /// # Errors
    /// Those of rename(2).
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of unlink(2).
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Has the names in it written to the disk.
    ///
    /// # Errors
    /// Those of fsync(2). File systems that cannot do that for a directory are no error.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, ".", flags, Mode::empty())?;
        match rustix::fs::fsync(&opened) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls `each` with the names of all files in it, in any order.
    ///
    /// # Errors
    /// Those of getdents(2), and the first of `each`.
    pub fn each_name<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(OsString) -> Result<(), E>,
    ) -> Result<(), E> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.0, ".", flags, Mode::empty());
        let opened = opened.map_err(|error| E::from(error.into()))?;
        let read = Dir::read_from(opened).map_err(|error| E::from(error.into()))?;
        for entry in read {
            let entry = entry.map_err(|error| E::from(error.into()))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                each(OsString::from_vec(name.to_vec()))?;
            }
        }
        Ok(())
    }

    /// Why something could not be opened. The kernel says of a link no more than that it is no directory.
    fn told(&self, name: &OsStr, error: io::Error) -> io::Error {
        let is_link = self
            .stat(name)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
        match is_link {
            true => odd(name, "is a symbolic link, and links are not followed"),
            false => error,
        }
    }
}

impl AsFd for Beneath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn odd(name: &OsStr, what: &str) -> io::Error {
    let text = format!("{} {what}", name.display());
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
