//! OpenSSH's extensions (its file PROTOCOL, section 4).

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::attributes::{self, NewAttributes};
use super::handles::HANDLES_MAX;
use super::packet::{self, Fields, Reply, SftpError};
use super::paths::{absolute, expanded, path};
use super::requests::{DATA_BYTES_MAX, FileServer};
use super::{REQUEST_BYTES_MAX, VERSION};
use crate::login::ContainerUser;

/// Their names, with their versions.
const EXTENSIONS: [(&str, &str); 7] = [
    ("posix-rename@openssh.com", "1"),
    ("hardlink@openssh.com", "1"),
    ("fsync@openssh.com", "1"),
    ("lsetstat@openssh.com", "1"),
    ("statvfs@openssh.com", "2"),
    ("limits@openssh.com", "1"),
    ("expand-path@openssh.com", "1"),
];

/// The answer to the first request.
pub(super) fn version() -> Reply {
    let mut reply = Reply::new(packet::VERSION, VERSION);
    for (name, version) in EXTENSIONS {
        reply.text(name.as_bytes());
        reply.text(version.as_bytes());
    }
    reply
}

/// Carries one out.
pub(super) fn answer(
    server: &mut FileServer,
    number: u32,
    fields: &mut Fields,
) -> Result<Reply, SftpError> {
    match fields.text()? {
        b"posix-rename@openssh.com" => fs::rename(path(fields)?, path(fields)?)?,
        b"hardlink@openssh.com" => fs::hard_link(path(fields)?, path(fields)?)?,
        b"fsync@openssh.com" => server.handles.file(fields.text()?)?.0.sync_all()?,
        b"lsetstat@openssh.com" => {
            let path = path(fields)?;
            NewAttributes::read(fields)?.set_on_link(&path)?;
        }
        b"statvfs@openssh.com" => return room(number, fields),
        b"limits@openssh.com" => return Ok(limits(number)),
        b"expand-path@openssh.com" => {
            let wanted = expanded(&path(fields)?, &ContainerUser::own().home);
            let mut reply = Reply::new(packet::NAME, number);
            reply.u32(1);
            let whole = absolute(&wanted)?;
            reply.text(whole.as_os_str().as_bytes());
            reply.text(whole.as_os_str().as_bytes());
            attributes::write_none(&mut reply);
            return Ok(reply);
        }
        _ => return Err(SftpError::Unsupported),
    }
    Ok(Reply::done(number))
}

/// How large and how full a file system is.
fn room(number: u32, fields: &mut Fields) -> Result<Reply, SftpError> {
    let told = statvfs(path(fields)?)?;
    let flags = u64::from(told.f_flag.contains(StatVfsMountFlags::RDONLY))
        | u64::from(told.f_flag.contains(StatVfsMountFlags::NOSUID)) << 1;
    let mut reply = Reply::new(packet::EXTENDED_REPLY, number);
    for value in [
        told.f_bsize,
        told.f_frsize,
        told.f_blocks,
        told.f_bfree,
        told.f_bavail,
        told.f_files,
        told.f_ffree,
        told.f_favail,
        told.f_fsid,
        flags,
        told.f_namemax,
    ] {
        reply.u64(value);
    }
    Ok(reply)
}

fn limits(number: u32) -> Reply {
    let mut reply = Reply::new(packet::EXTENDED_REPLY, number);
    for limit in [
        REQUEST_BYTES_MAX,
        DATA_BYTES_MAX,
        DATA_BYTES_MAX,
        HANDLES_MAX,
    ] {
        reply.u64(limit as u64);
    }
    reply
}
