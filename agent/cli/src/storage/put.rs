//! `muster storage put`.

use std::fs::Metadata;
use std::io::{self, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use muster_model::storage_file::LARGE_FILE_BYTES;
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncSeekExt as _};
use tokio_util::io::ReaderStream;

use super::batches::{self, TreeBatch};
use super::path::StoragePath;
use super::transfer::{FileTransfer, TransferPatience, has_changed, prefix, word};
use crate::api::{Api, FileUpload};
use crate::byte_size::ByteSize;
use crate::client::{self, RequestBody};
use crate::console::Console;
use crate::error::CliError;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Into a directory that is there, else to that name; files that are there are replaced. Nobody sees a part of a file under
its name. A transfer that broke off goes on where it was: by itself for two minutes, and when the same command is given
again, for files of 8 MiB and more. What has changed meanwhile begins anew. Links stay links. Files belong to root, as
those of tasks do.

Examples:
  muster storage put model.pt data:models/
  muster storage put ./dataset data:
  tar c . | muster storage put - data:backup.tar";

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;
/// A file that changes under the transfer is begun anew so often.
const BEGINNINGS_MAX: usize = 3;

#[derive(Debug, Args)]
pub struct PutArguments {
    /// The file or directory here; - for stdin.
    #[arg(value_name = "FILE|DIR")]
    from: PathBuf,
    /// Where to.
    #[arg(value_name = "STORAGE:PATH")]
    to: StoragePath,
}

impl PutArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let transfer = Arc::new(FileTransfer::new(&format!("writing {}", self.to), None));
        let putting = Putting {
            api,
            transfer: &transfer,
        };
        if self.from == Path::new("-") {
            if is_directory(api, &self.to).await? {
                let why = format!("stdin has no name: write one, as {}", self.to.join("NAME"));
                return Err(CliError::Usage(why));
            }
            let body = body(tokio::io::stdin(), Arc::clone(&transfer));
            let upload = FileUpload {
                word: None,
                before: None,
                size: None,
                mode: None,
                changed_s: None,
            };
            transfer
                .alive(api.put_file(&self.to, &upload, body))
                .await?;
            return told(1, &transfer, console);
        }
        let failed = |source| CliError::Read {
            path: self.from.clone(),
            source,
        };
        // A path may end in `.`, whose name is not that of the directory.
        let whole = self.from.canonicalize().map_err(failed)?;
        let metadata = whole.metadata().map_err(failed)?;
        let named = self.from.file_name().or_else(|| whole.file_name());
        let name = named.and_then(|name| name.to_str()).map(str::to_owned);
        let name = name.ok_or_else(|| {
            CliError::Usage(format!(
                "{}: its name cannot be one in a storage",
                self.from.display()
            ))
        })?;
        let to = match is_directory(api, &self.to).await? {
            true => self.to.join(&name),
            false => self.to,
        };
        let files = match metadata.is_dir() {
            true => putting.tree(&whole, &to, console).await?,
            false => {
                putting.file(&whole, &metadata, &to).await?;
                1
            }
        };
        told(files, &transfer, console)
    }
}

/// Says what went.
pub(super) fn told(
    files: u64,
    transfer: &FileTransfer,
    console: &Console,
) -> Result<CliStatus, CliError> {
    transfer.clear();
    let bytes = ByteSize(transfer.moved());
    let word = if files == 1 { "file" } else { "files" };
    console.note(format!("{files} {word}, {bytes}"));
    Ok(CliStatus::Ok)
}

/// Whether there is a directory.
async fn is_directory(api: &Api, place: &StoragePath) -> Result<bool, CliError> {
    match api.storage_files(place, None, 1).await {
        Ok(files) => Ok(files.is_directory),
        Err(error) if is_no_file(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_no_file(error: &CliError) -> bool {
    matches!(error, CliError::Refused { code, .. } if code == "NoFileError")
}

/// An upload.
struct Putting<'a> {
    api: &'a Api,
    transfer: &'a Arc<FileTransfer>,
}

impl Putting<'_> {
    async fn file(
        &self,
        from: &Path,
        metadata: &Metadata,
        to: &StoragePath,
    ) -> Result<(), CliError> {
        let size = metadata.len();
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        let parts = [
            &*from.to_string_lossy(),
            &to.to_string(),
            &format!("{size} {changed:?}"),
        ];
        let word = word(&parts);
        let (mut patience, mut beginnings) = (TransferPatience::new(), 0);
        let mut begins_anew = false;
        loop {
            let sent = self.rest((from, metadata), to, (&word, begins_anew)).await;
            begins_anew = false;
            match sent {
                Ok(()) => return Ok(()),
                Err(error) if has_changed(&error) && beginnings < BEGINNINGS_MAX => {
                    beginnings += 1;
                    begins_anew = true;
                }
                Err(error) => patience.bear(error, self.transfer.moved()).await?,
            }
        }
    }

    /// Sends what is missing of a file.
    async fn rest(
        &self,
        (from, metadata): (&Path, &Metadata),
        to: &StoragePath,
        (word, begins_anew): (&str, bool),
    ) -> Result<(), CliError> {
        let size = metadata.len();
        let kept = match size >= LARGE_FILE_BYTES && !begins_anew {
            true => self.api.kept_upload(to, word).await?.min(size),
            false => 0,
        };
        let before = match kept {
            0 => None,
            kept => Some((kept, prefix(from, kept).await?)),
        };
        let failed = |source| CliError::Read {
            path: from.to_owned(),
            source,
        };
        let mut file = File::open(from).await.map_err(failed)?;
        file.seek(SeekFrom::Start(kept)).await.map_err(failed)?;
        let upload = FileUpload {
            word: Some(word.to_owned()),
            before,
            size: Some(size),
            mode: Some(metadata.mode() & 0o777),
            changed_s: u64::try_from(metadata.mtime()).ok(),
        };
        let body = body(
            tokio::io::AsyncReadExt::take(file, size - kept),
            Arc::clone(self.transfer),
        );
        self.transfer
            .alive(self.api.put_file(to, &upload, body))
            .await
    }

    /// Sends a directory: small files together, large ones each alone.
    async fn tree(
        &self,
        from: &Path,
        to: &StoragePath,
        console: &Console,
    ) -> Result<u64, CliError> {
        let (above, name) = match to.split() {
            Some((above, name)) => (above, name.to_owned()),
            None => (to.clone(), String::new()),
        };
        let mut batches = batches::of(from, &name);
        let (mut files, mut larges) = (0, Vec::new());
        while let Some(batch) = batches.next().await? {
            files += batch.files;
            for path in &batch.skipped {
                console.note(format!(
                    "{path} is no file that can be copied: it is left out"
                ));
            }
            larges.extend(batch.large.iter().cloned());
            self.batch(&above, batch).await?;
        }
        for large in larges {
            let path = from.join(&large);
            let metadata = path.symlink_metadata();
            let metadata = metadata.map_err(|source| CliError::Read {
                path: path.clone(),
                source,
            })?;
            self.file(&path, &metadata, &to.join(&large)).await?;
            files += 1;
        }
        Ok(files)
    }

    async fn batch(&self, above: &StoragePath, batch: TreeBatch) -> Result<(), CliError> {
        let bytes = bytes::Bytes::from(batch.records);
        let mut patience = TransferPatience::new();
        loop {
            let length = bytes.len() as u64;
            let body = client::full(bytes.clone());
            let sent = self
                .transfer
                .alive(self.api.put_tree(above, length, body))
                .await;
            match sent {
                Ok(()) => {
                    self.transfer.add(batch.bytes);
                    return Ok(());
                }
                Err(error) => patience.bear(error, self.transfer.moved()).await?,
            }
        }
    }
}

/// A body of what is read. Each part that is read counts as moved.
fn body(from: impl AsyncRead + Send + Sync + 'static, transfer: Arc<FileTransfer>) -> RequestBody {
    let parts = ReaderStream::with_capacity(from, READ_BYTES);
    let frames = parts.map_ok(move |part| {
        transfer.add(part.len() as u64);
        Frame::data(part)
    });
    StreamBody::new(frames.map_err(io::Error::from)).boxed()
}
