//! What uploads and downloads have in common: going on after a connection broke, and showing how far it is.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tokio::time::sleep;

use crate::error::CliError;
use crate::spinner::Spinner;

/// Without any progress for this long, a transfer ends.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(500);
/// Hexadecimal digits that tell partial files apart.
const WORD_CHARS: usize = 32;

/// How a transfer stands.
#[derive(Debug)]
pub(super) struct FileTransfer {
    spinner: Spinner,
    /// All bytes that went, also those that go once more.
    moved: AtomicU64,
    total: Option<u64>,
}

impl FileTransfer {
    pub(super) fn new(what: &str, total: Option<u64>) -> Self {
        Self {
            spinner: Spinner::new(what),
            moved: AtomicU64::new(0),
            total,
        }
    }

    pub(super) fn add(&self, count: u64) {
        let all = self.moved.fetch_add(count, Ordering::Relaxed) + count;
        self.spinner.bytes(all, self.total);
    }

    pub(super) fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    pub(super) fn clear(&self) {
        self.spinner.clear();
    }

    /// What `step` gives, or an error where nothing has moved for too long.
    pub(super) async fn alive<T>(
        &self,
        step: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        let mut step = std::pin::pin!(step);
        loop {
            let before = self.moved();
            tokio::select! {
                done = &mut step => return done,
                () = sleep(PATIENCE) => {}
            }
            if self.moved() == before {
                return Err(CliError::Failed {
                    what: "the transfer".to_owned(),
                    message: format!("nothing has moved for {} s", PATIENCE.as_secs()),
                });
            }
        }
    }
}

/// Bears failures of a transfer that pass, unless it makes no progress for too long.
#[derive(Debug)]
pub(super) struct TransferPatience {
    since: Instant,
    moved: u64,
}

impl TransferPatience {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            moved: 0,
        }
    }

    /// Pauses before the next try.
    ///
    /// # Errors
    /// The failure, where it does not pass.
    pub(super) async fn bear(&mut self, error: CliError, moved: u64) -> Result<(), CliError> {
        if !passes(&error) {
            return Err(error);
        }
        if moved > self.moved {
            (self.since, self.moved) = (Instant::now(), moved);
        }
        if self.since.elapsed() >= PATIENCE {
            return Err(error);
        }
        sleep(PAUSE).await;
        Ok(())
    }
}

/// Whether the same may work in a moment. That a storage cannot be used is told at once.
fn passes(error: &CliError) -> bool {
    match error {
        CliError::Connect { .. } | CliError::Broken { .. } | CliError::Silent { .. } => true,
        CliError::Refused { status, code, .. } => {
            status.as_u16() == 429
                || ["TooManyTransfersError", "UploadRunningError"].contains(&&**code)
        }
        _ => false,
    }
}

/// Whether a file is another one than the one that was begun with.
pub(super) fn has_changed(error: &CliError) -> bool {
    error.is_past_the_end()
        || matches!(error, CliError::Refused { code, .. } if code == "FileChangedError")
}

/// A word for a transfer: the same for the same, so that a later try finds what an earlier one left.
pub(super) fn word(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    let mut word = hexadecimal(&digest.finalize());
    word.truncate(WORD_CHARS);
    word
}

/// The SHA-256 of the first bytes of a file.
pub(super) async fn prefix(path: &Path, bytes: u64) -> Result<String, CliError> {
    let path = path.to_owned();
    let read = {
        let path = path.clone();
        tokio::task::spawn_blocking(move || digest(&path, bytes)).await
    };
    let read = read.map_err(io::Error::other).and_then(|digest| digest);
    read.map_err(|source| CliError::Read { path, source })
}

fn digest(path: &Path, bytes: u64) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut left = File::open(path)?.take(bytes);
    let mut part = vec![0; 256 << 10];
    loop {
        let count = left.read(&mut part)?;
        if count == 0 {
            return Ok(hexadecimal(&digest.finalize()));
        }
        digest.update(&part[..count]);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
