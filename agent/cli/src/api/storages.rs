//! Routes of the files of storages.

use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RANGE};
use hyper::body::Incoming;
use muster_model::storage_file::{StorageFiles, StorageProbe, StorageWritten};
use serde_json::json;

use super::{Api, encode};
use crate::client::{self, RequestBody, understood};
use crate::error::CliError;
use crate::storage::StoragePath;

const STORAGES: &str = "/api/muster/v1/storages";
/// The agent gives a server up sooner.
const FILES_TIMEOUT: Duration = Duration::from_secs(120);

/// A file as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct FileUpload {
    /// Names the upload; none: it cannot be continued.
    pub(crate) word: Option<String>,
    /// What came earlier: how many bytes, and their SHA-256.
    pub(crate) before: Option<(u64, String)>,
    /// Bytes of the whole file, if they are known.
    pub(crate) size: Option<u64>,
    /// Permissions.
    pub(crate) mode: Option<u32>,
    /// When it was changed last, in seconds since the epoch.
    pub(crate) changed_s: Option<u64>,
}

impl Api {
    fn files_path(what: &str, place: &StoragePath) -> String {
        let StoragePath { storage, path } = place;
        format!(
            "{STORAGES}/{}/files{what}?path={}",
            encode(storage),
            encode(path)
        )
    }

    /// A page of a directory of a storage, or a file alone.
    pub(crate) async fn storage_files(
        &self,
        place: &StoragePath,
        after: Option<&str>,
        limit: u32,
    ) -> Result<StorageFiles, CliError> {
        let mut path = format!("{}&limit={limit}", Self::files_path("", place));
        if let Some(after) = after {
            let _ = write!(path, "&after={}", encode(after));
        }
        let what = format!("cannot list {place}");
        let request = self.client.request(Method::GET, &path);
        let answer = self
            .client
            .call(&what, request, client::empty(), FILES_TIMEOUT)
            .await?;
        understood(&what, &answer)
    }

    /// How many bytes of an upload came before it broke off.
    pub(crate) async fn kept_upload(
        &self,
        place: &StoragePath,
        word: &str,
    ) -> Result<u64, CliError> {
        let path = format!("{}&upload={word}", Self::files_path("/upload", place));
        let what = format!("cannot write {place}");
        let request = self.client.request(Method::GET, &path);
        let answer = self
            .client
            .call(&what, request, client::empty(), FILES_TIMEOUT)
            .await?;
        Ok(understood::<StorageWritten>(&what, &answer)?.bytes)
    }

    /// Writes a file of a storage.
    pub(crate) async fn put_file(
        &self,
        place: &StoragePath,
        file: &FileUpload,
        body: RequestBody,
    ) -> Result<(), CliError> {
        let mut path = Self::files_path("/content", place);
        if let Some(word) = &file.word {
            let _ = write!(path, "&upload={word}");
        }
        if let Some((bytes, digest)) = &file.before {
            let _ = write!(path, "&offset={bytes}&sha256={digest}");
        }
        if let Some(size) = file.size {
            let _ = write!(path, "&size={size}");
        }
        if let Some(mode) = file.mode {
            let _ = write!(path, "&mode={mode:o}");
        }
        if let Some(changed_s) = file.changed_s {
            let _ = write!(path, "&changed={changed_s}");
        }
        let before = file.before.as_ref().map_or(0, |(bytes, _)| *bytes);
        let length = file.size.map(|size| size.saturating_sub(before));
        let what = format!("cannot write {place}");
        self.send_bytes(&what, &path, (length, body)).await
    }

    /// Makes files of records, below a directory of a storage.
    pub(crate) async fn put_tree(
        &self,
        place: &StoragePath,
        length: u64,
        body: RequestBody,
    ) -> Result<(), CliError> {
        let path = Self::files_path("/tree", place);
        let what = format!("cannot write {place}");
        self.send_bytes(&what, &path, (Some(length), body)).await
    }

    async fn send_bytes(
        &self,
        what: &str,
        path: &str,
        (length, body): (Option<u64>, RequestBody),
    ) -> Result<(), CliError> {
        let mut request = self.client.request(Method::PUT, path);
        request = request.header(CONTENT_TYPE, "application/octet-stream");
        if let Some(length) = length {
            request = request.header(CONTENT_LENGTH, length);
        }
        self.client.send(what, request, body).await?;
        Ok(())
    }

    /// Reads a file of a storage, behind bytes with this SHA-256 if there are such.
    pub(crate) async fn get_file(
        &self,
        place: &StoragePath,
        before: Option<(u64, String)>,
    ) -> Result<Incoming, CliError> {
        let mut path = Self::files_path("/content", place);
        if let Some((_, digest)) = &before {
            let _ = write!(path, "&sha256={digest}");
        }
        let mut request = self.client.request(Method::GET, &path);
        if let Some((bytes, _)) = before {
            request = request.header(RANGE, format!("bytes={bytes}-"));
        }
        self.body_of(place, request).await
    }

    /// Reads a directory of a storage as records, behind this path.
    pub(crate) async fn get_tree(
        &self,
        place: &StoragePath,
        after: Option<&str>,
    ) -> Result<Incoming, CliError> {
        let mut path = Self::files_path("/tree", place);
        if let Some(after) = after {
            let _ = write!(path, "&after={}", encode(after));
        }
        self.body_of(place, self.client.request(Method::GET, &path))
            .await
    }

    async fn body_of(
        &self,
        place: &StoragePath,
        request: http::request::Builder,
    ) -> Result<Incoming, CliError> {
        let what = format!("cannot read {place}");
        let answer = self.client.send(&what, request, client::empty()).await?;
        Ok(answer.into_body())
    }

    /// Mounts a storage on the agent's machine, and tells how it is there.
    pub(crate) async fn probe_storage(&self, name: &str) -> Result<StorageProbe, CliError> {
        let path = format!("{STORAGES}/{}/probe", encode(name));
        let what = format!("cannot probe {name}");
        let (request, body) = client::json(self.client.request(Method::POST, &path), &json!({}));
        let answer = self
            .client
            .call(&what, request, body, FILES_TIMEOUT)
            .await?;
        understood(&what, &answer)
    }
}
