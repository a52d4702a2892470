//! The requests of version 3.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _, symlink};
use std::path::Path;

use super::attributes::{self, NewAttributes};
use super::extended;
use super::handles::{Handles, OpenHandle};
use super::listing;
use super::packet::{self, Fields, Reply, SftpError};
use super::paths::{absolute, path};

/// Most bytes that are read or written at once, as with OpenSSH.
pub(super) const DATA_BYTES_MAX: usize = (256 << 10) - 1024;
/// Entries of a directory in one reply.
const ENTRIES_MAX: usize = 128;

const OPEN_READ: u32 = 0x01;
const OPEN_WRITE: u32 = 0x02;
const OPEN_APPEND: u32 = 0x04;
const OPEN_CREATE: u32 = 0x08;
const OPEN_TRUNCATE: u32 = 0x10;
const OPEN_NEW: u32 = 0x20;
const MODE_FILE: u32 = 0o666;
const MODE_DIRECTORY: u32 = 0o777;

/// The server of one session.
#[derive(Debug, Default)]
pub(super) struct FileServer {
    pub(super) handles: Handles,
}

impl FileServer {
    /// Carries a request out.
    pub(super) fn answer(
        &mut self,
        kind: u8,
        number: u32,
        fields: &mut Fields,
    ) -> Result<Reply, SftpError> {
        match kind {
            packet::OPEN => return self.open(number, fields),
            packet::READ => return self.read(number, fields),
            packet::OPENDIR => return self.open_directory(number, fields),
            packet::READDIR => return self.list(number, fields),
            packet::LSTAT => return Ok(told(number, &fs::symlink_metadata(path(fields)?)?)),
            packet::STAT => return Ok(told(number, &fs::metadata(path(fields)?)?)),
            packet::FSTAT => return self.stat_open(number, fields),
            packet::REALPATH => return Ok(named(number, &absolute(&path(fields)?)?)),
            packet::READLINK => return Ok(named(number, &fs::read_link(path(fields)?)?)),
            packet::EXTENDED => return extended::answer(self, number, fields),
            packet::WRITE => self.write(fields)?,
            packet::CLOSE => self.handles.close(fields.text()?)?,
            packet::SETSTAT => {
                let path = path(fields)?;
                NewAttributes::read(fields)?.set(&path)?;
            }
            packet::FSETSTAT => self.set_open(fields)?,
            packet::REMOVE => remove(&path(fields)?)?,
            packet::MKDIR => make_directory(fields)?,
            packet::RMDIR => fs::remove_dir(path(fields)?)?,
            packet::RENAME => rename(&path(fields)?, &path(fields)?)?,
            // In the order of OpenSSH, which all clients follow, and not of the draft.
            packet::SYMLINK => symlink(path(fields)?, path(fields)?)?,
            _ => return Err(SftpError::Unsupported),
        }
        Ok(Reply::done(number))
    }

    fn open(&mut self, number: u32, fields: &mut Fields) -> Result<Reply, SftpError> {
        let (path, flags) = (path(fields)?, fields.number()?);
        let wanted = NewAttributes::read(fields)?;
        let has = |flag: u32| flags & flag != 0;
        let mut options = File::options();
        options
            .read(has(OPEN_READ))
            .write(has(OPEN_WRITE))
            .append(has(OPEN_WRITE) && has(OPEN_APPEND))
            .truncate(has(OPEN_TRUNCATE))
            .create(has(OPEN_CREATE))
            .create_new(has(OPEN_CREATE) && has(OPEN_NEW))
            .mode(wanted.mode.unwrap_or(MODE_FILE));
        let file = options.open(&path)?;
        let appends = has(OPEN_APPEND);
        self.opened(number, OpenHandle::File { file, appends })
    }

    fn open_directory(&mut self, number: u32, fields: &mut Fields) -> Result<Reply, SftpError> {
        let path = path(fields)?;
        let entries = fs::read_dir(&path)?;
        self.opened(number, OpenHandle::Directory { path, entries })
    }

    fn opened(&mut self, number: u32, handle: OpenHandle) -> Result<Reply, SftpError> {
        let name = self.handles.add(handle)?;
        let mut reply = Reply::new(packet::HANDLE, number);
        reply.text(&name);
        Ok(reply)
    }

    fn read(&mut self, number: u32, fields: &mut Fields) -> Result<Reply, SftpError> {
        let (file, _) = self.handles.file(fields.text()?)?;
        let (place, wanted) = (fields.long()?, fields.number()?);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let mut data = vec![0; wanted.min(DATA_BYTES_MAX)];
        let read = file.read_at(&mut data, place)?;
        if read == 0 && wanted > 0 {
            return Err(SftpError::End);
        }
        let mut reply = Reply::new(packet::DATA, number);
        reply.text(&data[..read]);
        Ok(reply)
    }

    fn write(&mut self, fields: &mut Fields) -> Result<(), SftpError> {
        let (file, appends) = self.handles.file(fields.text()?)?;
        let (place, data) = (fields.long()?, fields.text()?);
        match appends {
            true => file.write_all(data)?,
            false => file.write_all_at(data, place)?,
        }
        Ok(())
    }

    fn stat_open(&mut self, number: u32, fields: &mut Fields) -> Result<Reply, SftpError> {
        let metadata = match self.handles.find(fields.text()?)? {
            OpenHandle::File { file, .. } => file.metadata()?,
            OpenHandle::Directory { path, .. } => fs::metadata(path)?,
        };
        Ok(told(number, &metadata))
    }

    fn set_open(&mut self, fields: &mut Fields) -> Result<(), SftpError> {
        let (file, _) = self.handles.file(fields.text()?)?;
        let mut wanted = NewAttributes::read(fields)?;
        // Its handle may write where its path may not.
        if let Some(size) = wanted.size.take() {
            file.set_len(size)?;
        }
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
        wanted.set(Path::new(&path))
    }

    fn list(&mut self, number: u32, fields: &mut Fields) -> Result<Reply, SftpError> {
        let OpenHandle::Directory { path, entries } = self.handles.find(fields.text()?)? else {
            return Err(io::Error::from(io::ErrorKind::NotADirectory).into());
        };
        let mut found = Vec::new();
        for entry in entries.by_ref() {
            let name = entry?.file_name();
            // One that is gone meanwhile is left out.
            if let Ok(metadata) = fs::symlink_metadata(path.join(&name)) {
                found.push((name, metadata));
            }
            if found.len() == ENTRIES_MAX {
                break;
            }
        }
        if found.is_empty() {
            return Err(SftpError::End);
        }
        let mut reply = Reply::new(packet::NAME, number);
        reply.u32(u32::try_from(found.len()).unwrap_or(u32::MAX));
        for (name, metadata) in found {
            reply.text(name.as_bytes());
            reply.text(listing::line(&name.to_string_lossy(), &metadata).as_bytes());
            attributes::write(&mut reply, &metadata);
        }
        Ok(reply)
    }
}

/// A file, or a link itself; a directory is refused by the system.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

fn make_directory(fields: &mut Fields) -> Result<(), SftpError> {
    let path = path(fields)?;
    let wanted = NewAttributes::read(fields)?;
    let mut builder = DirBuilder::new();
    builder.mode(wanted.mode.unwrap_or(MODE_DIRECTORY));
    Ok(builder.create(path)?)
}

/// As version 3 has it: what is there is not replaced. `posix-rename` does.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

fn told(number: u32, metadata: &fs::Metadata) -> Reply {
    let mut reply = Reply::new(packet::ATTRS, number);
    attributes::write(&mut reply, metadata);
    reply
}

fn named(number: u32, path: &Path) -> Reply {
    let mut reply = Reply::new(packet::NAME, number);
    reply.u32(1);
    reply.text(path.as_os_str().as_bytes());
    reply.text(path.as_os_str().as_bytes());
    attributes::write_none(&mut reply);
    reply
}
