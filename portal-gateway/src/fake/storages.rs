//! Storages in memory. Their files have paths and bytes alone, and a tree of records is the bytes that came.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use muster_model::storage::{ClusterStorages, Storage};
use muster_model::storage_file::{
    FileDenial, FileDenialKind, StorageFile, StorageFileKind, StorageFiles, StorageProbe,
    StorageWritten,
};

use super::FakeCluster;
use crate::port::{
    ByteStream, FileReadWish, FileSlice, FileWriteWish, PortError, StoragePlace, Storages,
};

/// Bytes by the storage and the path.
pub(super) type FakeFiles = BTreeMap<(String, String), Vec<u8>>;

impl FakeCluster {
    /// Declares storages, and replaces those that there were.
    pub fn set_storages(&self, storages: ClusterStorages) {
        self.state().storages = storages;
    }

    fn content(&self, place: &StoragePlace) -> Result<Vec<u8>, PortError> {
        let found = self.state().files.get(&key(place, "")).cloned();
        found.ok_or_else(|| denied(FileDenialKind::NoPath, &place.path))
    }

    async fn taken(
        &self,
        place: &StoragePlace,
        wish: &FileWriteWish,
        mut body: ByteStream,
    ) -> Result<StorageWritten, PortError> {
        if place.storage.read_only {
            return Err(denied(
                FileDenialKind::ReadOnly,
                "the storage may only be read",
            ));
        }
        let kept = key(place, wish.upload.as_deref().unwrap_or("+"));
        let mut content = match wish.offset {
            0 => Vec::new(),
            _ => self.state().files.remove(&kept).unwrap_or_default(),
        };
        if content.len() as u64 != wish.offset {
            return Err(denied(FileDenialKind::Changed, "begin anew"));
        }
        while let Some(part) = body.next().await {
            match part {
                Ok(part) => content.extend(part),
                Err(error) => {
                    self.state().files.insert(kept, content);
                    return Err(denied(FileDenialKind::Unusable, &error.to_string()));
                }
            }
        }
        if wish.size.is_some_and(|size| size != content.len() as u64) {
            return Err(denied(FileDenialKind::Changed, "begin anew"));
        }
        let bytes = content.len() as u64;
        self.state().files.insert(key(place, ""), content);
        Ok(StorageWritten { bytes, files: 1 })
    }
}

fn key(place: &StoragePlace, upload: &str) -> (String, String) {
    let user = match place.storage.share {
        true => "",
        false => place.user.as_str(),
    };
    let storage = format!("{}/{user}/{upload}", place.storage.name);
    (storage, place.path.trim_matches('/').to_owned())
}

fn denied(kind: FileDenialKind, message: &str) -> PortError {
    FileDenial::new(kind, message).into()
}

fn entry(name: &str, bytes: &[u8]) -> StorageFile {
    StorageFile {
        name: name.to_owned(),
        kind: StorageFileKind::File,
        size: bytes.len() as u64,
        changed_ms: 0,
        mode: 0o644,
        uid: 0,
        gid: 0,
        target: None,
    }
}

#[async_trait]
impl Storages for FakeCluster {
    async fn list(&self) -> Result<Vec<Storage>, PortError> {
        Ok(self.state().storages.storages.clone())
    }

    async fn files(
        &self,
        place: &StoragePlace,
        after: Option<String>,
        limit: u32,
    ) -> Result<StorageFiles, PortError> {
        let (storage, path) = key(place, "");
        if !path.is_empty() {
            let content = self.content(place)?;
            let name = path.rsplit('/').next().unwrap_or_default();
            return Ok(StorageFiles {
                is_directory: false,
                entries: vec![entry(name, &content)],
                next: None,
            });
        }
        let state = self.state();
        let all = state
            .files
            .iter()
            .filter(|((other, _), _)| *other == storage);
        let mut behind =
            all.filter(|((_, name), _)| after.as_ref().is_none_or(|after| name > after));
        let entries: Vec<_> = behind
            .by_ref()
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(|((_, name), bytes)| entry(name, bytes))
            .collect();
        let next = behind
            .next()
            .and_then(|_| entries.last())
            .map(|last| last.name.clone());
        Ok(StorageFiles {
            is_directory: true,
            entries,
            next,
        })
    }

    async fn read_file(
        &self,
        place: &StoragePlace,
        wish: FileReadWish,
    ) -> Result<FileSlice, PortError> {
        let content = self.content(place)?;
        let size = content.len() as u64;
        let start = wish
            .tail
            .map_or(wish.start, |bytes| size.saturating_sub(bytes));
        if start > size {
            return Err(denied(
                FileDenialKind::Range,
                "the range begins behind the end",
            ));
        }
        let end = wish.end.map_or(size, |end| (end + 1).min(size));
        let at = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
        let part = Bytes::from(content).slice(at(start)..at(end.max(start)));
        Ok(FileSlice {
            size,
            start,
            bytes: part.len() as u64,
            body: Box::pin(futures::stream::iter([Ok(part)])),
        })
    }

    async fn write_file(
        &self,
        place: &StoragePlace,
        wish: FileWriteWish,
        body: ByteStream,
    ) -> Result<StorageWritten, PortError> {
        self.taken(place, &wish, body).await
    }

    async fn kept_upload(
        &self,
        place: &StoragePlace,
        upload: &str,
    ) -> Result<StorageWritten, PortError> {
        let state = self.state();
        let kept = state.files.get(&key(place, upload)).map_or(0, Vec::len) as u64;
        Ok(StorageWritten {
            bytes: kept,
            files: 0,
        })
    }

    async fn read_tree(
        &self,
        place: &StoragePlace,
        _: Option<String>,
    ) -> Result<ByteStream, PortError> {
        let content = self.content(place)?;
        Ok(Box::pin(futures::stream::iter([Ok(content.into())])))
    }

    async fn write_tree(
        &self,
        place: &StoragePlace,
        body: ByteStream,
    ) -> Result<StorageWritten, PortError> {
        self.taken(place, &FileWriteWish::default(), body).await
    }

    async fn probe(&self, place: &StoragePlace) -> Result<StorageProbe, PortError> {
        let read_only = place.storage.read_only;
        Ok(StorageProbe {
            node: "fake".to_owned(),
            took_ms: 1,
            problem: None,
            size: 1 << 40,
            free: 1 << 39,
            entries: 0,
            can_write: !read_only,
            unwritable: read_only.then(|| "it is declared as readOnly".to_owned()),
        })
    }
}
