//! What the agent asks of the helper for files, and what it answers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::storage::AttachedPlace;

/// Most characters of the word that tells uploads apart.
pub const UPLOAD_CHARS_MAX: usize = 64;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRequest {
    /// The file that the namespace of storages is mounted on.
    pub namespace: PathBuf,
    /// The directory that is seen, as a task would see it. Its `target` means nothing.
    pub root: AttachedPlace,
    /// The path in it, with slashes between names; empty: the directory itself.
    pub path: String,
    /// What to do.
    pub step: FileStep,
}

/// One thing to do with files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileStep {
    /// List a directory, or a file alone.
    List {
        /// Begin behind this name.
        after: Option<String>,
        /// At most so many entries.
        limit: u32,
    },
    /// Read a file.
    Read(ReadStep),
    /// Write a file from the bytes that come.
    Write(WriteStep),
    /// Say how much there is of an upload that broke off.
    Kept {
        /// The word of the upload.
        upload: String,
    },
    /// Send a directory as records of a tree.
    SendTree {
        /// Begin behind this path.
        after: Option<String>,
        /// Larger files come without content, in bytes.
        large: u64,
    },
    /// Make files of records that come, below a directory.
    ReceiveTree {
        /// Tells its partial files from those of others.
        token: String,
    },
    /// Say how the storage is.
    Probe,
}

/// Which bytes of a file are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadStep {
    /// The first byte.
    pub start: u64,
    /// The last byte; none: to the end.
    pub end: Option<u64>,
    /// Only the last so many bytes.
    pub tail: Option<u64>,
    /// The SHA-256 of the bytes before `start`, in hexadecimal digits: others are an error.
    pub prefix: Option<String>,
}

/// How a file is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteStep {
    /// Names the partial file.
    pub upload: String,
    /// Whether the partial file stays when the bytes break off.
    pub is_kept: bool,
    /// The first byte that comes; those before are in the partial file.
    pub offset: u64,
    /// Their SHA-256, in hexadecimal digits: needed with an offset.
    pub prefix: Option<String>,
    /// Bytes of the whole file, if they are known.
    pub size: Option<u64>,
    /// Its permissions.
    pub mode: u32,
    /// When it was changed last, in seconds since the epoch.
    pub changed_s: Option<i64>,
}

/// What is known before bytes go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHead {
    /// The file's bytes.
    pub size: u64,
    /// When it was changed last, in seconds since the epoch.
    pub changed_s: i64,
    /// The first byte that comes.
    pub start: u64,
    /// How many come.
    pub bytes: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDone {
    /// Bytes written, or kept of an upload.
    pub bytes: u64,
    /// Files, directories and links made.
    pub files: u64,
    /// Of a list: whether the path is a directory.
    pub is_directory: bool,
    /// Of a list: whether there is more.
    pub has_more: bool,
}

/// A file in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name. Bytes that are not UTF-8 are shown as U+FFFD.
    pub name: String,
    /// What it is.
    pub kind: FileEntryKind,
    /// Bytes.
    pub size: u64,
    /// When it was changed last, in seconds since the epoch.
    pub changed_s: i64,
    /// Its permissions.
    pub mode: u32,
    /// Its user's number.
    pub uid: u32,
    /// Its group's number.
    pub gid: u32,
    /// Where a link leads.
    pub target: Option<String>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileEntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// How a storage is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeDone {
    /// Bytes of its file system.
    pub size: u64,
    /// Bytes free for users.
    pub free: u64,
    /// Entries of its root directory that were read: 1,000 at most.
    pub entries: u64,
    /// Why it cannot be written; none: it can.
    pub unwritable: Option<String>,
}
