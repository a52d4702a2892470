//! Files of storages, as people list, read and write them through an agent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most entries in a page of a list, and how many there are if the request does not say.
pub const FILE_PAGE_MAX: u32 = 10_000;
/// See [`FILE_PAGE_MAX`].
pub const FILE_PAGE: u32 = 1_000;
/// Larger files do not come among others in a tree, in bytes: alone, they can be resumed.
pub const LARGE_FILE_BYTES: u64 = 8 << 20;

/// A part of a list of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageFiles {
    /// Whether the path is a directory. If not, it is the only entry itself.
    pub is_directory: bool,
    /// In the order of the names' bytes.
    pub entries: Vec<StorageFile>,
    /// `after` of the next request; null at the end.
    pub next: Option<String>,
}

/// A file of a storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageFile {
    /// Its name. Bytes that are not UTF-8 are shown as U+FFFD, and such a file cannot be asked for.
    pub name: String,
    /// What it is.
    pub kind: StorageFileKind,
    /// Bytes.
    pub size: u64,
    /// When it was changed last, in milliseconds since the epoch.
    pub changed_ms: i64,
    /// Its permissions, as a number: 420 is 0644.
    pub mode: u32,
    /// The number of its user.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Where a symbolic link leads; null for all else.
    pub target: Option<String>,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StorageFileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which is not followed.
    Link,
    /// A device, socket or pipe.
    Other,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageWritten {
    /// Bytes; of an upload that broke off, how many of it there are.
    pub bytes: u64,
    /// Files, directories and links.
    pub files: u64,
}

/// How a storage is on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageProbe {
    /// The node that was asked.
    pub node: String,
    /// How long the answer took, mounting included, in milliseconds.
    pub took_ms: u64,
    /// Why it cannot be used; null: it can.
    pub problem: Option<String>,
    /// Bytes of its file system.
    pub size: u64,
    /// Bytes free for users.
    pub free: u64,
    /// Entries of its root directory that were read: 1,000 at most.
    pub entries: u64,
    /// Whether a file could be made and removed.
    pub can_write: bool,
    /// Why not; null if it could.
    pub unwritable: Option<String>,
}

/// Why files of a storage were not listed, read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FileDenial {
    /// What kind of reason it is.
    pub kind: FileDenialKind,
    /// The reason, for people.
    pub message: String,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDenialKind {
    /// There is no such path.
    NoPath,
    /// The path or the request cannot be meant.
    Bad,
    /// It may only be read.
    ReadOnly,
    /// The disk or a quota is full.
    Full,
    /// A file is not the one that was begun with.
    Changed,
    /// The same upload is running.
    Running,
    /// The range begins behind the end.
    Range,
    /// The user has as many transfers as one may.
    TooMany,
    /// The node has as many transfers as it may.
    NodeFull,
    /// The storage cannot be used on this node now.
    Unusable,
}

impl FileDenial {
    /// One of this kind.
    pub fn new(kind: FileDenialKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}
