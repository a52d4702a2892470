//! Files and directories that a client has open.

use std::collections::BTreeMap;
use std::fs::{File, ReadDir};
use std::io;
use std::path::PathBuf;

use super::packet::SftpError;

/// So many may be open.
pub(super) const HANDLES_MAX: usize = 256;

/// What is open.
#[derive(Debug)]
pub(super) enum OpenHandle {
    /// A file. `appends`: what is written goes to its end, whatever place the client names.
    File { file: File, appends: bool },
    /// A directory that is listed.
    Directory { path: PathBuf, entries: ReadDir },
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: BTreeMap<u32, OpenHandle>,
    next: u32,
}

impl Handles {
    /// Keeps one, and gives its name.
    pub(super) fn add(&mut self, handle: OpenHandle) -> Result<[u8; 4], SftpError> {
        if self.open.len() >= HANDLES_MAX {
            let message = format!("more than {HANDLES_MAX} open files");
            return Err(io::Error::other(message).into());
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.open.insert(number, handle);
        Ok(number.to_be_bytes())
    }

    pub(super) fn find(&mut self, name: &[u8]) -> Result<&mut OpenHandle, SftpError> {
        let handle = number(name).and_then(|number| self.open.get_mut(&number));
        handle.ok_or_else(unknown)
    }

    /// An open file.
    pub(super) fn file(&mut self, name: &[u8]) -> Result<(&mut File, bool), SftpError> {
        match self.find(name)? {
            OpenHandle::File { file, appends } => Ok((file, *appends)),
            OpenHandle::Directory { .. } => Err(unknown()),
        }
    }

    /// Lets go of one.
    pub(super) fn close(&mut self, name: &[u8]) -> Result<(), SftpError> {
        let closed = number(name).and_then(|number| self.open.remove(&number));
        closed.map(|_| ()).ok_or_else(unknown)
    }
}

fn number(name: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(name.try_into().ok()?))
}

fn unknown() -> SftpError {
    io::Error::new(io::ErrorKind::InvalidInput, "no such handle").into()
}
