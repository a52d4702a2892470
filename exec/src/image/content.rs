//! Blobs in containerd's content store.

use std::collections::HashMap;
use std::time::Duration;

use containerd_client::services::v1::{
    AbortRequest, Info, InfoRequest, ReadContentRequest, UpdateRequest, WriteAction,
    WriteContentRequest, WriteContentResponse,
};
use containerd_client::tonic::{Status, Streaming};
use prost_types::FieldMask;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::connection::{FailedCall, FaultKind, ImageConnection, optional};
use super::{ContentLease, Digest, ImageError};

/// Bytes sent to containerd at once: large enough that its answers cost nothing, and small
/// enough that several transfers fit in a few MiB.
pub(super) const CHUNK_BYTES: usize = 256 << 10;
/// Pauses while somebody else writes the same blob, so for about ten seconds.
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(200);

/// The size of a blob, `None` if it is not here.
pub(super) async fn size(
    line: &ImageConnection,
    digest: &Digest,
) -> Result<Option<u64>, ImageError> {
    let request = line.request(InfoRequest {
        digest: digest.to_string(),
    });
    let answer = optional(
        line.call("look for content", line.content().info(request))
            .await,
    )?;
    Ok(answer
        .and_then(|a| a.info)
        .map(|info| u64::try_from(info.size).unwrap_or(0)))
}

/// The labels of a blob; none if it is not here.
pub(super) async fn labels(
    line: &ImageConnection,
    digest: &Digest,
) -> Result<HashMap<String, String>, ImageError> {
    let request = line.request(InfoRequest {
        digest: digest.to_string(),
    });
    let answer = optional(
        line.call("look for content", line.content().info(request))
            .await,
    )?;
    let info = answer.and_then(|answer| answer.info);
    Ok(info.map(|info| info.labels).unwrap_or_default())
}

/// Reads a document as a whole, `None` if it is not here.
pub(super) async fn read(
    line: &ImageConnection,
    digest: &Digest,
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, ImageError> {
    let Some(bytes) = size(line, digest).await? else {
        return Ok(None);
    };
    if bytes > bytes_max {
        return Err(ImageError::TooLarge {
            what: digest.to_string(),
            bytes,
            max: bytes_max,
        });
    }
    let body = ReadContentRequest {
        digest: digest.to_string(),
        offset: 0,
        size: 0,
    };
    let request = line.request(body);
    let mut stream = line
        .call("read content", line.content().read(request))
        .await?;
    let mut data = Vec::new();
    let whole = async {
        while let Some(part) = stream.message().await? {
            data.extend_from_slice(&part.data);
        }
        Ok(())
    };
    line.long_call("read content", whole).await?;
    Ok(Some(data))
}

/// Sets labels of a blob, leaving its others.
pub(super) async fn label(
    line: &ImageConnection,
    digest: &Digest,
    labels: HashMap<String, String>,
) -> Result<(), ImageError> {
    let paths = labels.keys().map(|key| format!("labels.{key}")).collect();
    let info = Info {
        digest: digest.to_string(),
        labels,
        ..Info::default()
    };
    let body = UpdateRequest {
        info: Some(info),
        update_mask: Some(FieldMask { paths }),
    };
    let request = line.request(body);
    line.call("label content", line.content().update(request))
        .await?;
    Ok(())
}

/// Writes a document as a whole. One that is here already is kept.
pub(super) async fn write(
    line: &ImageConnection,
    lease: &ContentLease,
    bytes: &[u8],
) -> Result<Digest, ImageError> {
    let digest = Digest::of(bytes);
    let opened = Ingest::open(line, lease, Expected::Known(&digest, bytes.len() as u64)).await?;
    if let Some(mut ingest) = opened {
        ingest.restart().await?;
        ingest.write(bytes).await?;
        ingest.commit().await?;
    }
    Ok(digest)
}

/// What is known of a blob before it is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expected<'a> {
    /// Its digest and size.
    Known(&'a Digest, u64),
    /// Nothing; the digest is computed. The size is.
    Size(u64),
}

/// A blob being written. Dropped before [`Ingest::commit`], what was sent stays for the next
/// try to go on from, as long as the lease does.
#[derive(Debug)]
pub(super) struct Ingest<'a> {
    line: &'a ImageConnection,
    name: String,
    digest: Option<Digest>,
    size: u64,
    hasher: Option<Sha256>,
    buffer: Vec<u8>,
    /// Bytes that containerd has.
    offset: u64,
    sender: mpsc::Sender<WriteContentRequest>,
    answers: Streaming<WriteContentResponse>,
}

impl<'a> Ingest<'a> {
    /// Opens a blob for writing where an earlier try ended; `None` if it is here already, in
    /// which case the lease holds it now.
    pub(super) async fn open(
        line: &'a ImageConnection,
        lease: &ContentLease,
        expected: Expected<'_>,
    ) -> Result<Option<Self>, ImageError> {
        let mut tries = 0;
        loop {
            match Self::try_open(line, lease, expected).await {
                Ok(ingest) => return Ok(Some(ingest)),
                Err(fault) if fault.kind == FaultKind::Busy && tries < BUSY_TRIES => {
                    tries += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(fault) => match (fault.kind, expected) {
                    (FaultKind::Exists, Expected::Known(digest, _)) => {
                        lease.hold_content(line, digest).await?;
                        return Ok(None);
                    }
                    _ => return Err(fault.error),
                },
            }
        }
    }

    async fn try_open(
        line: &'a ImageConnection,
        lease: &ContentLease,
        expected: Expected<'_>,
    ) -> Result<Self, FailedCall> {
        let (name, digest, size, hasher) = match expected {
            Expected::Known(digest, size) => {
                (format!("muster-{digest}"), Some(digest.clone()), size, None)
            }
            Expected::Size(size) => (
                format!("muster-{}", uuid::Uuid::new_v4()),
                None,
                size,
                Some(Sha256::new()),
            ),
        };
        let (sender, requests) = mpsc::channel(1);
        let first = WriteContentRequest {
            action: WriteAction::Stat.into(),
            r#ref: name.clone(),
            total: i64::try_from(size).unwrap_or(i64::MAX),
            expected: digest.as_ref().map(ToString::to_string).unwrap_or_default(),
            ..WriteContentRequest::default()
        };
        // containerd sends no header before its first answer, so the question goes first.
        let _ = sender.send(first).await;
        let request = line.leased(ReceiverStream::new(requests), lease);
        let mut answers = line
            .call("write content", line.content().write(request))
            .await?;
        let status = next(line, &mut answers).await?;
        let offset = u64::try_from(status.offset).unwrap_or(0);
        let buffer = Vec::new();
        Ok(Self {
            line,
            name,
            digest,
            size,
            hasher,
            buffer,
            offset,
            sender,
            answers,
        })
    }

    /// How much an earlier try has brought.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Forgets what an earlier try brought.
    pub(super) async fn restart(&mut self) -> Result<(), ImageError> {
        if self.offset > 0 {
            self.offset = 0;
            self.send(WriteAction::Write, Vec::new()).await?;
        }
        Ok(())
    }

    /// Adds bytes. More than the size that was announced is an error.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> Result<(), ImageError> {
        if self.offset + (self.buffer.len() + bytes.len()) as u64 > self.size {
            return Err(self.damaged(format!(
                "it has more than the {} bytes it should",
                self.size
            )));
        }
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        while !bytes.is_empty() {
            let room = CHUNK_BYTES - self.buffer.len();
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            self.buffer.reserve_exact(CHUNK_BYTES - self.buffer.len());
            self.buffer.extend_from_slice(part);
            bytes = rest;
            if self.buffer.len() == CHUNK_BYTES {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Sends what is buffered, so that the next try can go on after it.
    pub(super) async fn flush(&mut self) -> Result<(), ImageError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let data = std::mem::take(&mut self.buffer);
        let count = data.len() as u64;
        self.send(WriteAction::Write, data).await?;
        self.offset += count;
        Ok(())
    }

    /// Ends the blob. containerd compares digest and size; on a difference nothing is kept.
    pub(super) async fn commit(mut self) -> Result<Digest, ImageError> {
        self.flush().await?;
        if self.offset != self.size {
            let reason = format!("it has {} bytes instead of {}", self.offset, self.size);
            let error = self.damaged(reason);
            self.abort().await;
            return Err(error);
        }
        let digest = match (self.digest.take(), self.hasher.take()) {
            (Some(digest), _) => digest,
            (None, hasher) => Digest::finish(hasher.unwrap_or_default()),
        };
        self.digest = Some(digest.clone());
        match self.send(WriteAction::Commit, Vec::new()).await {
            Ok(()) => Ok(digest),
            Err(fault) if fault.kind == FaultKind::Exists => {
                self.abort().await;
                Ok(digest)
            }
            Err(fault) if fault.kind == FaultKind::Precondition => {
                let error = self.damaged(fault.error.to_string());
                self.abort().await;
                Err(error)
            }
            Err(fault) => Err(fault.error),
        }
    }

    /// Drops what was sent. Best effort: the lease's end does it too.
    pub(super) async fn abort(self) {
        let Self {
            line,
            name,
            sender,
            answers,
            ..
        } = self;
        drop((sender, answers));
        let request = line.request(AbortRequest { r#ref: name });
        let _ = line
            .call("drop content", line.content().abort(request))
            .await;
    }

    fn damaged(&self, reason: String) -> ImageError {
        let what = self
            .digest
            .as_ref()
            .map_or_else(|| self.name.clone(), ToString::to_string);
        ImageError::Digest { what, reason }
    }

    async fn send(&mut self, action: WriteAction, data: Vec<u8>) -> Result<(), FailedCall> {
        let committing = action == WriteAction::Commit;
        let expected = self
            .digest
            .as_ref()
            .filter(|_| committing)
            .map(ToString::to_string);
        let request = WriteContentRequest {
            action: action.into(),
            total: i64::try_from(self.size).unwrap_or(i64::MAX),
            expected: expected.unwrap_or_default(),
            offset: i64::try_from(self.offset).unwrap_or(i64::MAX),
            data,
            ..WriteContentRequest::default()
        };
        // A closed channel means that the stream failed; the answer says how.
        let _ = self.sender.send(request).await;
        next(self.line, &mut self.answers).await.map(drop)
    }
}

async fn next(
    line: &ImageConnection,
    answers: &mut Streaming<WriteContentResponse>,
) -> Result<WriteContentResponse, FailedCall> {
    let answer = async {
        let ended = || Status::unavailable("the transfer was closed");
        answers.message().await?.ok_or_else(ended)
    };
    line.long_call("write content", answer).await
}
