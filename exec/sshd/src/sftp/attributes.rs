//! Attributes of files.

use std::fs::{File, Metadata, Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, chownat, utimensat};

use super::packet::{Fields, Reply, SftpError};

const SIZE: u32 = 0x1;
const OWNER: u32 = 0x2;
const PERMISSIONS: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;
/// The bits of a mode that can be set.
const MODE_MASK: u32 = 0o7777;

/// What a client sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NewAttributes {
    pub(super) size: Option<u64>,
    /// User and group.
    pub(super) owner: Option<(u32, u32)>,
    pub(super) mode: Option<u32>,
    /// Last access and change, in seconds since the epoch.
    pub(super) times: Option<(u32, u32)>,
}

impl NewAttributes {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, SftpError> {
        let flags = fields.number()?;
        let mut read = Self::default();
        if flags & SIZE != 0 {
            read.size = Some(fields.long()?);
        }
        if flags & OWNER != 0 {
            read.owner = Some((fields.number()?, fields.number()?));
        }
        if flags & PERMISSIONS != 0 {
            read.mode = Some(fields.number()? & MODE_MASK);
        }
        if flags & TIMES != 0 {
            read.times = Some((fields.number()?, fields.number()?));
        }
        if flags & EXTENDED != 0 {
            for _ in 0..fields.number()? {
                fields.text()?;
                fields.text()?;
            }
        }
        Ok(read)
    }

    /// Sets them on what is at a path.
    pub(super) fn set(&self, path: &Path) -> Result<(), SftpError> {
        if let Some(size) = self.size {
            File::options().write(true).open(path)?.set_len(size)?;
        }
        if let Some(mode) = self.mode {
            set_permissions(path, Permissions::from_mode(mode))?;
        }
        self.set_owner_and_times(path, AtFlags::empty())
    }

    /// Sets them on a link itself, which has no mode and no size.
    pub(super) fn set_on_link(&self, path: &Path) -> Result<(), SftpError> {
        self.set_owner_and_times(path, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn set_owner_and_times(&self, path: &Path, flags: AtFlags) -> Result<(), SftpError> {
        if let Some((user, group)) = self.owner {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            chownat(CWD, path, Some(user), Some(group), flags)?;
        }
        if let Some((access, change)) = self.times {
            let at = |seconds: u32| Timespec {
                tv_sec: seconds.into(),
                tv_nsec: 0,
            };
            let times = Timestamps {
                last_access: at(access),
                last_modification: at(change),
            };
            utimensat(CWD, path, &times, flags)?;
        }
        Ok(())
    }
}

/// Writes those of a file.
pub(super) fn write(reply: &mut Reply, metadata: &Metadata) {
    let seconds = |time: i64| u32::try_from(time).unwrap_or(0);
    reply.u32(SIZE | OWNER | PERMISSIONS | TIMES);
    reply.u64(metadata.size());
    reply.u32(metadata.uid());
    reply.u32(metadata.gid());
    reply.u32(metadata.mode());
    reply.u32(seconds(metadata.atime()));
    reply.u32(seconds(metadata.mtime()));
}

/// That nothing is told.
pub(super) fn write_none(reply: &mut Reply) {
    reply.u32(0);
}
