//! The form of a tree in which each file stands alone, so that a part of it is of use.
//!
//! A record is its kind, permissions (4 bytes), time of the last change in seconds (8), bytes of content (8), and the
//! lengths (2 each) and bytes of its path and of a link's target; numbers are little endian. The content follows.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::TreeError;

const HEAD_BYTES: usize = 1 + 4 + 8 + 8 + 2 + 2;

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeRecordKind {
    /// A directory. What is in it follows.
    Directory,
    /// A file, with its content.
    File,
    /// A file without its content: it is too large to come among others.
    Large,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe, which is not copied.
    Other,
    /// Nothing follows.
    End,
}

/// One file or directory of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeRecord {
    /// What it is.
    pub kind: TreeRecordKind,
    /// Its path, from where the tree begins.
    pub path: OsString,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed last, in seconds since the epoch.
    pub changed_s: i64,
    /// Bytes of its content.
    pub bytes: u64,
    /// Where a link leads.
    pub target: OsString,
}

impl TreeRecordKind {
    const ALL: [(u8, Self); 6] = [
        (b'd', Self::Directory),
        (b'f', Self::File),
        (b'g', Self::Large),
        (b'l', Self::Link),
        (b'o', Self::Other),
        (b'e', Self::End),
    ];
}

impl TreeRecord {
    /// What a tree ends with.
    pub fn end() -> Self {
        Self {
            kind: TreeRecordKind::End,
            path: OsString::new(),
            mode: 0,
            changed_s: 0,
            bytes: 0,
            target: OsString::new(),
        }
    }

    /// Writes it, without content.
    ///
    /// # Errors
    /// Those of the writer, and `InvalidInput` for a path that is too long.
    pub fn write(&self, into: &mut impl Write) -> io::Result<()> {
        let code = TreeRecordKind::ALL
            .iter()
            .find(|(_, kind)| *kind == self.kind);
        let length =
            |text: &OsStr| u16::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.path.len());
        bytes.extend(code.map(|(code, _)| *code));
        bytes.extend(self.mode.to_le_bytes());
        bytes.extend(self.changed_s.to_le_bytes());
        bytes.extend(self.bytes.to_le_bytes());
        bytes.extend(length(&self.path)?.to_le_bytes());
        bytes.extend(length(&self.target)?.to_le_bytes());
        bytes.extend(self.path.as_bytes());
        bytes.extend(self.target.as_bytes());
        into.write_all(&bytes)
    }

    /// Reads one, without content.
    ///
    /// # Errors
    /// [`TreeError::BrokenOff`] where the stream ends, and [`TreeError::Malformed`] for what is no record.
    pub fn read(from: &mut impl Read) -> Result<Self, TreeError> {
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head).map_err(broken)?;
        let kind = TreeRecordKind::ALL
            .iter()
            .find(|(code, _)| *code == head[0]);
        let malformed = || TreeError::Malformed(io::ErrorKind::InvalidData.into());
        let (_, kind) = kind.ok_or_else(malformed)?;
        let at = |start: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[start..start + 8]);
            bytes
        };
        let length = |start: usize| usize::from(u16::from_le_bytes([head[start], head[start + 1]]));
        let mut text = |length: usize| {
            let mut bytes = vec![0; length];
            from.read_exact(&mut bytes).map_err(broken)?;
            Ok(OsString::from_vec(bytes))
        };
        Ok(Self {
            kind: *kind,
            mode: u32::from_le_bytes([head[1], head[2], head[3], head[4]]),
            changed_s: i64::from_le_bytes(at(5)),
            bytes: u64::from_le_bytes(at(13)),
            path: text(length(21))?,
            target: text(length(23))?,
        })
    }
}

/// That a stream cannot be read on.
pub(super) fn broken(error: io::Error) -> TreeError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => TreeError::BrokenOff,
        _ => TreeError::Malformed(error),
    }
}
