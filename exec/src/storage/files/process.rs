//! One process that works on files.

use std::time::Duration;

use muster_init::frame::{self, Decoder};
use muster_init::storage::files::{
    BEAT, DATA, DATA_BYTES_MAX, DONE, END, ENTRIES, FAILED, FileEntry, FileHead, FileProblem,
    FileRequest, HEAD, REQUEST,
};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::super::error::StorageError;
use super::super::mounts::MountHold;
use super::super::step_runner::HelperGroup;
use super::FileError;
use super::turns::FileTurn;

/// A process that has its request. When this is dropped its stdin ends, so that it can tidy up; it is killed if it has not
/// ended soon.
#[derive(Debug)]
pub struct FileHelper {
    /// Until it is given up.
    process: Option<HeldProcess>,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    decoder: Decoder,
    buffer: Vec<u8>,
    silence: Duration,
}

/// A process, and what is held for it until the kernel has ended it.
#[derive(Debug)]
struct HeldProcess {
    child: Child,
    _turn: FileTurn,
    _hold: Option<MountHold>,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFrame {
    /// What is known before bytes go.
    Head(FileHead),
    /// Bytes of a file or a tree.
    Data(Vec<u8>),
    /// A part of a list.
    Entries(Vec<FileEntry>),
    /// It is done; JSON, of the type that the step has.
    Done(Vec<u8>),
}

impl FileHelper {
    pub(super) async fn begin(
        mut child: Child,
        (turn, hold): (FileTurn, Option<MountHold>),
        request: &FileRequest,
        silence: Duration,
    ) -> Result<Self, FileError> {
        let pipes = child.stdin.take().zip(child.stdout.take());
        let process = HeldProcess {
            child,
            _turn: turn,
            _hold: hold,
        };
        let (stdin, stdout) = pipes.ok_or(FileError::NoAnswer)?;
        let mut helper = Self {
            process: Some(process),
            stdin: Some(stdin),
            stdout,
            decoder: Decoder::default(),
            buffer: vec![0; DATA_BYTES_MAX],
            silence,
        };
        let body = serde_json::to_vec(request).map_err(|_| FileError::NoAnswer)?;
        helper.send(REQUEST, &body).await?;
        Ok(helper)
    }

    /// What it says next.
    ///
    /// # Errors
    /// What it says of a failure, and where it says nothing for too long.
    pub async fn next(&mut self) -> Result<FileFrame, FileError> {
        loop {
            let frame = self.decoder.next_frame().map_err(|_| FileError::NoAnswer)?;
            let Some(frame) = frame else {
                let read = timeout(self.silence, self.stdout.read(&mut self.buffer)).await;
                let count = read
                    .map_err(|_| FileError::Silent(self.silence))?
                    .map_err(|_| FileError::NoAnswer)?;
                if count == 0 {
                    return Err(FileError::NoAnswer);
                }
                self.decoder.push(&self.buffer[..count]);
                continue;
            };
            return match frame.kind {
                BEAT => continue,
                HEAD => Ok(FileFrame::Head(understood(&frame.body)?)),
                DATA => Ok(FileFrame::Data(frame.body)),
                ENTRIES => Ok(FileFrame::Entries(understood(&frame.body)?)),
                DONE => Ok(FileFrame::Done(frame.body)),
                FAILED => Err(FileError::Problem(understood::<FileProblem>(&frame.body)?)),
                _ => Err(FileError::NoAnswer),
            };
        }
    }

    /// The head, which comes before any byte.
    ///
    /// # Errors
    /// As of [`FileHelper::next`].
    pub async fn head(&mut self) -> Result<FileHead, FileError> {
        match self.next().await? {
            FileFrame::Head(head) => Ok(head),
            _ => Err(FileError::NoAnswer),
        }
    }

    /// What it says in the end.
    ///
    /// # Errors
    /// As of [`FileHelper::next`].
    pub async fn done<T: DeserializeOwned>(&mut self) -> Result<T, FileError> {
        match self.next().await? {
            FileFrame::Done(body) => understood(&body),
            _ => Err(FileError::NoAnswer),
        }
    }

    /// Gives it bytes to write.
    ///
    /// # Errors
    /// Why it takes no more.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        for part in bytes.chunks(DATA_BYTES_MAX) {
            self.send(DATA, part).await?;
        }
        Ok(())
    }

    /// Says that all bytes have come.
    ///
    /// # Errors
    /// Why it takes no more.
    pub async fn end(&mut self) -> Result<(), FileError> {
        self.send(END, &[]).await
    }

    /// Says that no more bytes come, though they are not all, and gives it time to keep what it has.
    pub async fn break_off(mut self) {
        self.stdin = None;
        let _ = self.next().await;
    }

    async fn send(&mut self, kind: u16, body: &[u8]) -> Result<(), FileError> {
        let bytes = frame::encode(kind, body).map_err(|_| FileError::NoAnswer)?;
        let Some(stdin) = &mut self.stdin else {
            return Err(FileError::NoAnswer);
        };
        match timeout(self.silence, stdin.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(()),
            Err(_) => Err(FileError::Silent(self.silence)),
            // It says why on its other pipe.
            Ok(Err(_)) => Err(self.next().await.err().unwrap_or(FileError::NoAnswer)),
        }
    }
}

impl Drop for FileHelper {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        self.stdin = None;
        let silence = self.silence;
        // Without a runtime the process is killed as it is dropped.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if timeout(silence, process.child.wait()).await.is_err() {
                    drop(HelperGroup::of(&process.child));
                    // One that waits for a dead server ends when the kernel lets it.
                    let _ = process.child.wait().await;
                }
            });
        }
    }
}

fn understood<T: DeserializeOwned>(body: &[u8]) -> Result<T, FileError> {
    serde_json::from_slice(body).map_err(|_| FileError::NoAnswer)
}

impl From<FileError> for std::io::Error {
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::Silent(_) | FileError::Storage(StorageError::Late(_)) => {
                std::io::ErrorKind::TimedOut
            }
            _ => std::io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
