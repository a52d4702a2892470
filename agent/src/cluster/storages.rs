//! Storages: what the cluster's document declares, and their files by way of this node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use muster_exec::storage::files::{FileError, FileFrame, FileHelper, FilePlace, StorageFileAccess};
use muster_exec::storage::{
    FileDone, FileEntry, FileEntryKind, FileProblemKind, FileStep, MountSource, ProbeDone,
    ReadStep, WriteStep,
};
use muster_model::storage::Storage;
use muster_model::storage_file::{
    FileDenial, FileDenialKind, LARGE_FILE_BYTES, StorageFile, StorageFileKind, StorageFiles,
    StorageProbe, StorageWritten,
};
use muster_portal_gateway::port::{
    ByteStream, FileReadWish, FileSlice, FileWriteWish, PortError, StoragePlace, Storages,
};
use tokio::sync::mpsc;

use crate::accounts::Accounts;
use crate::causes::causes;
use crate::documents::storages::StoragesInForce;

/// A download is given up when its client takes no bytes for this time, because a node serves only a few at a time.
const STALL_LIMIT: Duration = Duration::from_secs(60);
/// Parts of a file on their way to a client.
const PARTS_MAX: usize = 4;
/// Permissions of a file of which the client says nothing.
const FILE_MODE: u32 = 0o644;

/// The storages of this cluster.
#[derive(Debug)]
pub(super) struct LocalStorages {
    pub(super) declared: StoragesInForce,
    pub(super) accounts: Accounts,
    pub(super) files: StorageFileAccess,
    /// What this node is called.
    pub(super) node: Arc<str>,
}

impl LocalStorages {
    async fn begin(&self, place: &StoragePlace, step: FileStep) -> Result<FileHelper, PortError> {
        let name = &place.storage.name;
        let unusable =
            |why: String| denied(FileDenialKind::Unusable, format!("storage {name}: {why}"));
        let opened = self
            .accounts
            .open_storage(&place.storage)
            .await
            .map_err(unusable)?;
        let Some(source) = MountSource::of(&opened) else {
            let kind = place.storage.kind.as_str();
            let message = format!("storage {name} is of the type {kind}, which is not mounted");
            return Err(denied(FileDenialKind::Bad, message));
        };
        let own = (!place.storage.share).then(|| place.user.to_string());
        let place_here = FilePlace {
            source,
            below: own.into_iter().collect(),
            read_only: place.storage.read_only,
            path: place.path.clone(),
        };
        let helper = self
            .files
            .begin(place.user.as_str(), place_here, step)
            .await;
        helper.map_err(|error| refused(name, &error))
    }

    /// Gives the bytes of a body to a helper, and hears what it made of them.
    async fn take(
        &self,
        place: &StoragePlace,
        mut helper: FileHelper,
        mut body: ByteStream,
    ) -> Result<StorageWritten, PortError> {
        let failed = |error: FileError| refused(&place.storage.name, &error);
        helper.head().await.map_err(failed)?;
        while let Some(part) = body.next().await {
            match part {
                Ok(part) => helper.write(&part).await.map_err(failed)?,
                Err(error) => {
                    helper.break_off().await;
                    let message = format!("the body broke off: {error}");
                    return Err(denied(FileDenialKind::Bad, message));
                }
            }
        }
        helper.end().await.map_err(failed)?;
        let done: FileDone = helper.done().await.map_err(failed)?;
        tracing::info!(
            user = %place.user,
            address = place.address,
            storage = place.storage.name,
            path = place.path,
            files = done.files,
            bytes = done.bytes,
            "wrote to a storage for a user"
        );
        Ok(written(&done))
    }

    async fn probed(&self, place: &StoragePlace) -> Result<ProbeDone, PortError> {
        let mut helper = self.begin(place, FileStep::Probe).await?;
        let done = helper.done().await;
        done.map_err(|error| refused(&place.storage.name, &error))
    }
}

const fn written(done: &FileDone) -> StorageWritten {
    StorageWritten {
        bytes: done.bytes,
        files: done.files,
    }
}

fn denied(kind: FileDenialKind, message: impl Into<String>) -> PortError {
    FileDenial::new(kind, message).into()
}

/// Why files of a storage are not to be had.
fn refused(storage: &str, error: &FileError) -> PortError {
    use FileDenialKind as D;
    let kind = match error {
        FileError::TooMany(_) => D::TooMany,
        FileError::NodeFull(_) => D::NodeFull,
        FileError::Problem(problem) => match problem.kind {
            FileProblemKind::NoPath => D::NoPath,
            FileProblemKind::BadPath => D::Bad,
            FileProblemKind::ReadOnly => D::ReadOnly,
            FileProblemKind::Full => D::Full,
            FileProblemKind::Changed => D::Changed,
            FileProblemKind::Busy => D::Running,
            FileProblemKind::Range => D::Range,
            FileProblemKind::Failed => D::Unusable,
        },
        FileError::Storage(_) | FileError::Silent(_) | FileError::NoAnswer => D::Unusable,
    };
    let message = match error {
        FileError::TooMany(_) | FileError::NodeFull(_) => error.to_string(),
        error => format!("storage {storage}: {}", causes(error)),
    };
    denied(kind, message)
}

/// The bytes that a helper gives, as they come. It is given up with a client that takes no more of them.
fn bytes_of(mut helper: FileHelper) -> ByteStream {
    let (parts, taken) = mpsc::channel(PARTS_MAX);
    tokio::spawn(async move {
        loop {
            let part = match helper.next().await {
                Ok(FileFrame::Data(bytes)) => Ok(bytes.into()),
                Ok(_) => return,
                Err(error) => Err(error.into()),
            };
            let is_last = part.is_err();
            let sent = parts.send_timeout(part, STALL_LIMIT).await;
            if is_last || sent.is_err() {
                return;
            }
        }
    });
    Box::pin(stream::unfold(taken, |mut taken| async move {
        let part = taken.recv().await?;
        Some((part, taken))
    }))
}

fn file(entry: FileEntry) -> StorageFile {
    StorageFile {
        name: entry.name,
        kind: match entry.kind {
            FileEntryKind::File => StorageFileKind::File,
            FileEntryKind::Directory => StorageFileKind::Directory,
            FileEntryKind::Link => StorageFileKind::Link,
            FileEntryKind::Other => StorageFileKind::Other,
        },
        size: entry.size,
        changed_ms: entry.changed_s.saturating_mul(1000),
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        target: entry.target,
    }
}

/// A word that no other upload has.
fn word() -> String {
    format!("{:032x}", rand::random::<u128>())
}

#[async_trait]
impl Storages for LocalStorages {
    async fn list(&self) -> Result<Vec<Storage>, PortError> {
        Ok(self.declared.now().storages.clone())
    }

    async fn files(
        &self,
        place: &StoragePlace,
        after: Option<String>,
        limit: u32,
    ) -> Result<StorageFiles, PortError> {
        let failed = |error: FileError| refused(&place.storage.name, &error);
        let mut helper = self.begin(place, FileStep::List { after, limit }).await?;
        let mut entries = Vec::new();
        loop {
            match helper.next().await.map_err(failed)? {
                FileFrame::Entries(part) => entries.extend(part.into_iter().map(file)),
                FileFrame::Done(body) => {
                    let done: FileDone =
                        serde_json::from_slice(&body).map_err(|_| failed(FileError::NoAnswer))?;
                    let last = entries.last().filter(|_| done.has_more);
                    return Ok(StorageFiles {
                        is_directory: done.is_directory,
                        next: last.map(|last: &StorageFile| last.name.clone()),
                        entries,
                    });
                }
                _ => return Err(failed(FileError::NoAnswer)),
            }
        }
    }

    async fn read_file(
        &self,
        place: &StoragePlace,
        wish: FileReadWish,
    ) -> Result<FileSlice, PortError> {
        let step = FileStep::Read(ReadStep {
            start: wish.start,
            end: wish.end,
            tail: wish.tail,
            prefix: wish.prefix,
        });
        let mut helper = self.begin(place, step).await?;
        let head = helper
            .head()
            .await
            .map_err(|error| refused(&place.storage.name, &error))?;
        Ok(FileSlice {
            size: head.size,
            start: head.start,
            bytes: head.bytes,
            body: bytes_of(helper),
        })
    }

    async fn write_file(
        &self,
        place: &StoragePlace,
        wish: FileWriteWish,
        body: ByteStream,
    ) -> Result<StorageWritten, PortError> {
        let step = FileStep::Write(WriteStep {
            is_kept: wish.upload.is_some(),
            upload: wish.upload.unwrap_or_else(word),
            offset: wish.offset,
            prefix: wish.prefix,
            size: wish.size,
            mode: wish.mode.unwrap_or(FILE_MODE),
            changed_s: wish.changed_s,
        });
        let helper = self.begin(place, step).await?;
        self.take(place, helper, body).await
    }

    async fn kept_upload(
        &self,
        place: &StoragePlace,
        upload: &str,
    ) -> Result<StorageWritten, PortError> {
        let upload = upload.to_owned();
        let mut helper = self.begin(place, FileStep::Kept { upload }).await?;
        let done: Result<FileDone, _> = helper.done().await;
        done.map(|done| written(&done))
            .map_err(|error| refused(&place.storage.name, &error))
    }

    async fn read_tree(
        &self,
        place: &StoragePlace,
        after: Option<String>,
    ) -> Result<ByteStream, PortError> {
        let large = LARGE_FILE_BYTES;
        let mut helper = self
            .begin(place, FileStep::SendTree { after, large })
            .await?;
        let head = helper.head().await;
        head.map_err(|error| refused(&place.storage.name, &error))?;
        Ok(bytes_of(helper))
    }

    async fn write_tree(
        &self,
        place: &StoragePlace,
        body: ByteStream,
    ) -> Result<StorageWritten, PortError> {
        let helper = self
            .begin(place, FileStep::ReceiveTree { token: word() })
            .await?;
        self.take(place, helper, body).await
    }

    async fn probe(&self, place: &StoragePlace) -> Result<StorageProbe, PortError> {
        let begun = Instant::now();
        let probed = self.probed(place).await;
        let mut told = StorageProbe {
            node: self.node.to_string(),
            took_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            problem: None,
            size: 0,
            free: 0,
            entries: 0,
            can_write: false,
            unwritable: None,
        };
        match probed {
            Ok(done) => {
                told.size = done.size;
                told.free = done.free;
                told.entries = done.entries;
                told.can_write = done.unwritable.is_none();
                told.unwritable = done.unwritable;
            }
            Err(PortError::File(denial))
                if !matches!(
                    denial.kind,
                    FileDenialKind::TooMany | FileDenialKind::NodeFull
                ) =>
            {
                told.problem = Some(denial.message);
            }
            Err(error) => return Err(error),
        }
        Ok(told)
    }
}
