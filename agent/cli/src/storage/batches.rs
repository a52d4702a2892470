//! A directory here as batches of records, each of which can be sent again.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use muster_model::storage_file::LARGE_FILE_BYTES;
use muster_tree::beneath::Beneath;
use muster_tree::{TreeError, TreeRecord, TreeRecordKind, send};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::CliError;

/// A batch is sent when it has so many bytes, or so many files.
const BATCH_BYTES: usize = 16 << 20;
const BATCH_FILES: u64 = 1_000;
/// Batches that are made before the first of them is sent.
const AHEAD: usize = 1;

/// Some of the files of a directory.
#[derive(Debug, Default)]
pub(super) struct TreeBatch {
    /// As they are sent, with their end.
    pub(super) records: Vec<u8>,
    /// Files, directories and links among them.
    pub(super) files: u64,
    /// Bytes of the files' content.
    pub(super) bytes: u64,
    /// Paths, from the directory, of files that go alone.
    pub(super) large: Vec<String>,
    /// Paths of what cannot be sent.
    pub(super) skipped: Vec<String>,
}

/// The batches as they are made.
pub(super) struct TreeBatches {
    path: PathBuf,
    made: mpsc::Receiver<TreeBatch>,
    making: Option<JoinHandle<Result<(), TreeError>>>,
}

impl TreeBatches {
    /// The next one; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<TreeBatch>, CliError> {
        if let Some(batch) = self.made.recv().await {
            return Ok(Some(batch));
        }
        let Some(making) = self.making.take() else {
            return Ok(None);
        };
        let failed = |message: String| CliError::Failed {
            what: format!("reading {}", self.path.display()),
            message,
        };
        let made = making.await.map_err(|error| failed(error.to_string()))?;
        made.map_err(|error| failed(error.to_string()))?;
        Ok(None)
    }
}

/// The batches of a directory that gets this name; empty: what is in it goes to the root.
pub(super) fn of(from: &Path, name: &str) -> TreeBatches {
    let (sender, made) = mpsc::channel(AHEAD);
    let (path, name) = (from.to_owned(), name.to_owned());
    let making = tokio::task::spawn_blocking(move || make(&path, &name, &sender));
    TreeBatches {
        path: from.to_owned(),
        made,
        making: Some(making),
    }
}

fn make(from: &Path, name: &str, sender: &mpsc::Sender<TreeBatch>) -> Result<(), TreeError> {
    let failed = |source: io::Error| TreeError::File {
        path: from.to_owned(),
        source,
    };
    let root = Beneath::open(from).map_err(failed)?;
    let mode = File::open(from)
        .and_then(|file| file.metadata())
        .map_err(failed)?;
    let mode = std::os::unix::fs::MetadataExt::mode(&mode);
    let (reader, mut writer) = io::pipe().map_err(failed)?;
    let sending = std::thread::spawn(move || send(&root, None, LARGE_FILE_BYTES, &mut writer));
    let read = gather(io::BufReader::new(reader), (name, mode), sender);
    // An error of the walk says more than that its records broke off.
    match sending.join() {
        Ok(Err(error)) if !matches!(error, TreeError::Closed(_)) => Err(error),
        _ => read,
    }
}

/// Puts the records of a tree into batches.
fn gather(
    mut from: impl io::Read,
    (name, mode): (&str, u32),
    sender: &mpsc::Sender<TreeBatch>,
) -> Result<(), TreeError> {
    let mut batch = TreeBatch::default();
    if !name.is_empty() {
        let directory = TreeRecord {
            kind: TreeRecordKind::Directory,
            path: name.into(),
            mode: mode & 0o777,
            ..TreeRecord::end()
        };
        directory
            .write(&mut batch.records)
            .map_err(TreeError::Closed)?;
    }
    loop {
        let mut record = TreeRecord::read(&mut from)?;
        if record.kind == TreeRecordKind::End {
            return finish(batch, sender);
        }
        let shown = record.path.to_string_lossy().into_owned();
        match record.kind {
            TreeRecordKind::Other => batch.skipped.push(shown),
            _ if record.path.to_str().is_none() => {
                io::copy(&mut from.by_ref().take(record.bytes), &mut io::sink())
                    .map_err(TreeError::Closed)?;
                batch.skipped.push(shown);
            }
            TreeRecordKind::Large => batch.large.push(shown),
            _ => {
                record.path = Path::new(name).join(&record.path).into();
                record
                    .write(&mut batch.records)
                    .map_err(TreeError::Closed)?;
                let copied = io::copy(&mut from.by_ref().take(record.bytes), &mut batch.records);
                if copied.map_err(TreeError::Closed)? != record.bytes {
                    return Err(TreeError::BrokenOff);
                }
                batch.files += 1;
                batch.bytes += record.bytes;
            }
        }
        if batch.records.len() >= BATCH_BYTES || batch.files >= BATCH_FILES {
            finish(std::mem::take(&mut batch), sender)?;
        }
    }
}

fn finish(mut batch: TreeBatch, sender: &mpsc::Sender<TreeBatch>) -> Result<(), TreeError> {
    TreeRecord::end()
        .write(&mut batch.records)
        .map_err(TreeError::Closed)?;
    let gone = |_| TreeError::Closed(io::ErrorKind::BrokenPipe.into());
    sender.blocking_send(batch).map_err(gone)
}
