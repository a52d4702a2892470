//! `muster storage get`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use futures::TryStreamExt;
use http_body_util::{BodyExt as _, BodyStream};
use hyper::body::Incoming;
use muster_model::storage_file::StorageFile;
use muster_tree::beneath::{Beneath, PARTIAL_PREFIX};
use muster_tree::{TreeError, TreeReceiver, TreeRecord, TreeRecordKind};
use tokio::fs::OpenOptions;
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::{InspectReader, StreamReader, SyncIoBridge};

use super::path::StoragePath;
use super::put::told;
use super::transfer::{FileTransfer, TransferPatience, has_changed, prefix, word};
use crate::api::Api;
use crate::client::broken;
use crate::console::Console;
use crate::error::CliError;
use crate::status::CliStatus;

pub(super) const EXAMPLES: &str = "\
Into a directory that is there, else to that name; files that are there are replaced. Nobody sees a part of a file under
its name. A transfer that broke off goes on where it was: by itself for two minutes, and when the same command is given
again. A file that has changed meanwhile begins anew. Links stay links, and none is followed.

Examples:
  muster storage get data:models/model.pt .
  muster storage get data:runs/one ./one
  muster storage get data:backup.tar - | tar t";

/// A file that changes under the transfer is begun anew so often.
const BEGINNINGS_MAX: usize = 3;

#[derive(Debug, Args)]
pub struct GetArguments {
    /// The file or directory of a storage.
    #[arg(value_name = "STORAGE:PATH")]
    from: StoragePath,
    /// Where to, here; - for stdout.
    #[arg(value_name = "FILE|DIR")]
    to: PathBuf,
}

impl GetArguments {
    pub(super) async fn run(self, api: &Api, console: &Console) -> Result<CliStatus, CliError> {
        let transfer = Arc::new(FileTransfer::new(&format!("reading {}", self.from), None));
        let getting = Getting {
            api,
            transfer: &transfer,
            console,
        };
        let found = api.storage_files(&self.from, None, 1).await?;
        if self.to == Path::new("-") {
            if found.is_directory {
                let why = format!("{} is a directory: stdout takes a file", self.from);
                return Err(CliError::Usage(why));
            }
            getting.stdout(&self.from).await?;
            transfer.clear();
            return Ok(CliStatus::Ok);
        }
        let name = self
            .from
            .split()
            .map_or(&*self.from.storage, |(_, name)| name);
        let to = match self.to.is_dir() {
            true => self.to.join(name),
            false => self.to,
        };
        let files = match (found.is_directory, found.entries.first()) {
            (false, Some(file)) => {
                getting.file(&self.from, file, &to).await?;
                1
            }
            _ => getting.tree(&self.from, &to).await?,
        };
        told(files, &transfer, console)
    }
}

/// A download.
struct Getting<'a> {
    api: &'a Api,
    transfer: &'a Arc<FileTransfer>,
    console: &'a Console,
}

impl Getting<'_> {
    async fn stdout(&self, from: &StoragePath) -> Result<(), CliError> {
        let mut body = self.api.get_file(from, None).await?;
        while let Some(frame) = self.transfer.alive(next(&mut body)).await? {
            self.transfer.add(frame.len() as u64);
            self.console.out(frame)?;
        }
        Ok(())
    }

    async fn file(
        &self,
        from: &StoragePath,
        file: &StorageFile,
        to: &Path,
    ) -> Result<(), CliError> {
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        let word = word(&[&from.to_string(), &to.to_string_lossy()]);
        let partial = parent.join(format!("{PARTIAL_PREFIX}{word}"));
        let (mut patience, mut beginnings) = (TransferPatience::new(), 0);
        loop {
            match self.rest(from, &partial).await {
                Ok(()) => break,
                Err(error) if has_changed(&error) && beginnings < BEGINNINGS_MAX => {
                    beginnings += 1;
                    let _ = fs::remove_file(&partial);
                }
                Err(error) => patience.bear(error, self.transfer.moved()).await?,
            }
        }
        let failed = |source| CliError::Write {
            path: to.to_owned(),
            source,
        };
        let opened = fs::File::options()
            .write(true)
            .open(&partial)
            .map_err(failed)?;
        muster_tree::finish(&opened, file.mode, Some(file.changed_ms / 1000)).map_err(failed)?;
        fs::rename(&partial, to).map_err(failed)
    }

    /// Reads what is missing of a file.
    async fn rest(&self, from: &StoragePath, partial: &Path) -> Result<(), CliError> {
        let failed = |source| CliError::Write {
            path: partial.to_owned(),
            source,
        };
        let have = fs::symlink_metadata(partial).map_or(0, |found| found.len());
        let before = match have {
            0 => None,
            have => Some((have, prefix(partial, have).await?)),
        };
        let mut body = self.transfer.alive(self.api.get_file(from, before)).await?;
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).open(partial).await;
        let mut file = opened.map_err(failed)?;
        while let Some(part) = self.transfer.alive(next(&mut body)).await? {
            file.write_all(&part).await.map_err(failed)?;
            self.transfer.add(part.len() as u64);
        }
        file.flush().await.map_err(failed)
    }

    /// Reads a directory: small files in one stream, large ones each alone.
    async fn tree(&self, from: &StoragePath, to: &Path) -> Result<u64, CliError> {
        let failed = |source| CliError::Write {
            path: to.to_owned(),
            source,
        };
        fs::create_dir_all(to).map_err(failed)?;
        let (mut patience, mut seen) = (TransferPatience::new(), TreeSeen::default());
        loop {
            let read = self.records(from, to, &mut seen).await;
            match read {
                Ok(()) => break,
                Err(error) => patience.bear(error, self.transfer.moved()).await?,
            }
        }
        for path in &seen.skipped {
            self.console.note(format!(
                "{path} is no file that can be copied: it is left out"
            ));
        }
        for (path, record) in &seen.large {
            let file = StorageFile {
                name: path.clone(),
                kind: muster_model::storage_file::StorageFileKind::File,
                size: record.bytes,
                changed_ms: record.changed_s.saturating_mul(1000),
                mode: record.mode,
                uid: 0,
                gid: 0,
                target: None,
            };
            self.file(&from.join(path), &file, &to.join(path)).await?;
        }
        Ok(seen.files + seen.large.len() as u64)
    }

    /// Reads the records behind those that were seen.
    async fn records(
        &self,
        from: &StoragePath,
        to: &Path,
        seen: &mut TreeSeen,
    ) -> Result<(), CliError> {
        let after = seen.last.clone();
        let body = self
            .transfer
            .alive(self.api.get_tree(from, after.as_deref()))
            .await?;
        let transfer = Arc::clone(self.transfer);
        let counted = InspectReader::new(reader(body), move |part: &[u8]| {
            transfer.add(part.len() as u64)
        });
        let bridge = SyncIoBridge::new(counted);
        let (to, word) = (to.to_owned(), word(&[&from.to_string()]));
        let mut now = std::mem::take(seen);
        let reading = tokio::task::spawn_blocking(move || {
            let received = receive(bridge, (&to, word), &mut now);
            (received, now)
        });
        let failed = |message: String| CliError::Failed {
            what: format!("reading {from}"),
            message,
        };
        let (received, now) = self
            .transfer
            .alive(async { reading.await.map_err(|error| failed(error.to_string())) })
            .await?;
        *seen = now;
        match received {
            Ok(()) => Ok(()),
            Err(TreeError::BrokenOff) => Err(broken("reading files", "it ended too soon")),
            Err(TreeError::Malformed(error)) => Err(broken("reading files", error)),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// What has come of a directory.
#[derive(Debug, Default)]
struct TreeSeen {
    files: u64,
    /// The path of the last record.
    last: Option<String>,
    large: Vec<(String, TreeRecord)>,
    skipped: Vec<String>,
}

fn receive(
    from: impl io::Read,
    (to, word): (&Path, String),
    seen: &mut TreeSeen,
) -> Result<(), TreeError> {
    let root = Beneath::open(to).map_err(|source| TreeError::File {
        path: to.to_owned(),
        source,
    })?;
    let receiver = TreeReceiver::new(&root, false, word);
    receiver.receive(&mut io::BufReader::new(from), |record| {
        let path = record.path.to_string_lossy().into_owned();
        seen.last = Some(path.clone());
        match record.kind {
            TreeRecordKind::Large => seen.large.push((path, record.clone())),
            TreeRecordKind::Other => seen.skipped.push(path),
            _ => seen.files += 1,
        }
    })
}

/// The next bytes of a body; none at the end.
async fn next(body: &mut Incoming) -> Result<Option<bytes::Bytes>, CliError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken("reading a file", error))?;
        if let Ok(bytes) = frame.into_data() {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

fn reader(body: Incoming) -> impl tokio::io::AsyncRead + Send + Unpin {
    let parts = TryStreamExt::map_err(BodyStream::new(body), io::Error::other);
    let parts = parts.try_filter_map(|frame| std::future::ready(Ok(frame.into_data().ok())));
    StreamReader::new(parts)
}
