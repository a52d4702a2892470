//! Storages that the cluster declares, and their files.

use std::fmt;

use async_trait::async_trait;
use muster_model::id::UserName;
use muster_model::storage::Storage;
use muster_model::storage_file::{StorageFiles, StorageProbe, StorageWritten};

use super::{ByteStream, PortError};

/// A path in a storage, as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoragePlace {
    /// As it is declared.
    pub storage: Storage,
    /// Who asks. Where users do not share the storage, their own directory is its root.
    pub user: UserName,
    /// The address that the user came from, for the record.
    pub address: String,
    /// The path, with slashes between names; empty: the root.
    pub path: String,
}

/// Which bytes of a file are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReadWish {
    /// The first byte.
    pub start: u64,
    /// The last byte; none: to the end.
    pub end: Option<u64>,
    /// Only the last so many bytes.
    pub tail: Option<u64>,
    /// The SHA-256 of the bytes before `start`, in hexadecimal digits: a file with others is refused.
    pub prefix: Option<String>,
}

/// How a file is to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileWriteWish {
    /// Names the upload, so that it can be continued; none: what comes of it stays only as a whole.
    pub upload: Option<String>,
    /// The first byte that comes; those before came earlier.
    pub offset: u64,
    /// Their SHA-256, in hexadecimal digits; needed with an offset.
    pub prefix: Option<String>,
    /// Bytes of the whole file: others are refused.
    pub size: Option<u64>,
    /// Permissions; none: 0644.
    pub mode: Option<u32>,
    /// When the file was changed last, in seconds since the epoch; none: now.
    pub changed_s: Option<i64>,
}

/// A part of a file.
pub struct FileSlice {
    /// Bytes of the whole file.
    pub size: u64,
    /// The first byte of the part.
    pub start: u64,
    /// Bytes of the part.
    pub bytes: u64,
    /// They themselves.
    pub body: ByteStream,
}

impl fmt::Debug for FileSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSlice")
            .field("size", &self.size)
            .field("start", &self.start)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Storages. Which of them a user may use, their groups say: it was checked before. Whatever cannot be done with files is
/// a [`PortError::File`].
#[async_trait]
pub trait Storages: std::fmt::Debug + Send + Sync {
    /// Every storage, secrets included, in the order that the cluster's document has them.
    async fn list(&self) -> Result<Vec<Storage>, PortError>;
    /// At most `limit` files of a directory, in the order of their names, behind the name `after`; or a file alone.
    async fn files(
        &self,
        place: &StoragePlace,
        after: Option<String>,
        limit: u32,
    ) -> Result<StorageFiles, PortError>;
    /// Reads a file.
    async fn read_file(
        &self,
        place: &StoragePlace,
        wish: FileReadWish,
    ) -> Result<FileSlice, PortError>;
    /// Writes a file. One that was there is replaced, once all bytes have come. A body that breaks off leaves what came
    /// of an upload that has a name.
    async fn write_file(
        &self,
        place: &StoragePlace,
        wish: FileWriteWish,
        body: ByteStream,
    ) -> Result<StorageWritten, PortError>;
    /// How many bytes there are of an upload that broke off; 0 if there are none.
    async fn kept_upload(
        &self,
        place: &StoragePlace,
        upload: &str,
    ) -> Result<StorageWritten, PortError>;
    /// A directory as records, without what comes up to the path `after`.
    async fn read_tree(
        &self,
        place: &StoragePlace,
        after: Option<String>,
    ) -> Result<ByteStream, PortError>;
    /// Makes files of records, below a directory.
    async fn write_tree(
        &self,
        place: &StoragePlace,
        body: ByteStream,
    ) -> Result<StorageWritten, PortError>;
    /// How the storage is on this node. That it cannot be used is no error.
    async fn probe(&self, place: &StoragePlace) -> Result<StorageProbe, PortError>;
}
