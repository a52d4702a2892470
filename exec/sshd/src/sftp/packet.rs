//! Requests and replies as bytes.

use std::io;

pub(super) const INIT: u8 = 1;
pub(super) const OPEN: u8 = 3;
pub(super) const CLOSE: u8 = 4;
pub(super) const READ: u8 = 5;
pub(super) const WRITE: u8 = 6;
pub(super) const LSTAT: u8 = 7;
pub(super) const FSTAT: u8 = 8;
pub(super) const SETSTAT: u8 = 9;
pub(super) const FSETSTAT: u8 = 10;
pub(super) const OPENDIR: u8 = 11;
pub(super) const READDIR: u8 = 12;
pub(super) const REMOVE: u8 = 13;
pub(super) const MKDIR: u8 = 14;
pub(super) const RMDIR: u8 = 15;
pub(super) const REALPATH: u8 = 16;
pub(super) const STAT: u8 = 17;
pub(super) const RENAME: u8 = 18;
pub(super) const READLINK: u8 = 19;
pub(super) const SYMLINK: u8 = 20;
pub(super) const EXTENDED: u8 = 200;

pub(super) const VERSION: u8 = 2;
const STATUS: u8 = 101;
pub(super) const HANDLE: u8 = 102;
pub(super) const DATA: u8 = 103;
pub(super) const NAME: u8 = 104;
pub(super) const ATTRS: u8 = 105;
pub(super) const EXTENDED_REPLY: u8 = 201;

const STATUS_OK: u32 = 0;
const STATUS_EOF: u32 = 1;
const STATUS_NO_SUCH_FILE: u32 = 2;
const STATUS_PERMISSION_DENIED: u32 = 3;
const STATUS_FAILURE: u32 = 4;
const STATUS_BAD_MESSAGE: u32 = 5;
const STATUS_UNSUPPORTED: u32 = 8;

/// Why a request is not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum SftpError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// There is no more.
    #[error("End of file")]
    End,
    /// The request has other fields than its kind has.
    #[error("Bad message")]
    Malformed,
    /// Nobody knows such a request.
    #[error("Operation unsupported")]
    Unsupported,
}

impl SftpError {
    fn status(&self) -> u32 {
        match self {
            Self::System(error) => match error.kind() {
                io::ErrorKind::NotFound => STATUS_NO_SUCH_FILE,
                io::ErrorKind::PermissionDenied => STATUS_PERMISSION_DENIED,
                _ => STATUS_FAILURE,
            },
            Self::End => STATUS_EOF,
            Self::Malformed => STATUS_BAD_MESSAGE,
            Self::Unsupported => STATUS_UNSUPPORTED,
        }
    }
}

impl From<rustix::io::Errno> for SftpError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// What is left to read of a request.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_be_bytes(*bytes))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_be_bytes(*bytes))
    }

    /// A field with its length before it.
    pub(super) fn text(&mut self) -> Result<&'a [u8], SftpError> {
        let length = self.u32().and_then(|length| usize::try_from(length).ok());
        let split = length.and_then(|length| self.rest.split_at_checked(length));
        let (text, rest) = split.ok_or(SftpError::Malformed)?;
        self.rest = rest;
        Ok(text)
    }

    /// A number that has to be there.
    pub(super) fn number(&mut self) -> Result<u32, SftpError> {
        self.u32().ok_or(SftpError::Malformed)
    }

    /// A long number that has to be there.
    pub(super) fn long(&mut self) -> Result<u64, SftpError> {
        self.u64().ok_or(SftpError::Malformed)
    }
}

/// A reply under construction.
#[derive(Debug)]
pub(super) struct Reply {
    body: Vec<u8>,
}

impl Reply {
    /// Begins one of a kind, to a request of a number.
    pub(super) fn new(kind: u8, number: u32) -> Self {
        let mut reply = Self { body: vec![kind] };
        reply.u32(number);
        reply
    }

    /// That it is done.
    pub(super) fn done(number: u32) -> Self {
        Self::with_status(number, STATUS_OK, "Success")
    }

    /// That it is not, and why.
    pub(super) fn status(number: u32, error: &SftpError) -> Self {
        Self::with_status(number, error.status(), &error.to_string())
    }

    fn with_status(number: u32, status: u32, message: &str) -> Self {
        let mut reply = Self::new(STATUS, number);
        reply.u32(status);
        reply.text(message.as_bytes());
        reply.text(b"");
        reply
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.body.extend(value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.body.extend(value.to_be_bytes());
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.body.extend(text);
    }

    /// As it is sent.
    pub(super) fn packet(&self) -> Vec<u8> {
        let length = u32::try_from(self.body.len()).unwrap_or(u32::MAX);
        [&length.to_be_bytes()[..], &self.body].concat()
    }
}
