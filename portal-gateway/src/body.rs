//! Request bodies: read whole within a bound, or handed on as they come.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, stream};
use sync_wrapper::SyncStream;

use crate::error::ApiError;
use crate::port::ByteStream;

/// A body that was not read yet.
pub(crate) struct UnreadBody {
    /// Only ever polled by its owner, so a request may be shared between threads.
    stream: SyncStream<ByteStream>,
    /// As declared; absent for a chunked body.
    length: Option<u64>,
}

impl UnreadBody {
    pub(crate) fn new(stream: ByteStream, length: Option<u64>) -> Self {
        Self {
            stream: SyncStream::new(stream),
            length,
        }
    }

    /// All of it.
    pub(crate) async fn read(mut self, max: usize, timeout: Duration) -> Result<Bytes, ApiError> {
        if self.length.is_some_and(|length| length > max as u64) {
            return Err(ApiError::TooLarge { limit: max });
        }
        tokio::time::timeout(timeout, collect(&mut self.stream, max))
            .await
            .map_err(|_| ApiError::Slow)?
    }

    /// Its parts as they come. A client that stalls for `timeout` ends it with an error.
    pub(crate) fn into_stream(self, timeout: Duration) -> ByteStream {
        Box::pin(stream::unfold(
            Some(self.stream),
            move |stream| async move {
                let mut stream = stream?;
                match tokio::time::timeout(timeout, stream.next()).await {
                    Ok(part) => part.map(|part| (part, Some(stream))),
                    Err(_) => Some((Err(io::ErrorKind::TimedOut.into()), None)),
                }
            },
        ))
    }
}

async fn collect(stream: &mut SyncStream<ByteStream>, max: usize) -> Result<Bytes, ApiError> {
    let mut whole = BytesMut::new();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|e| ApiError::Broken(e.to_string()))?;
        if whole.len() + part.len() > max {
            return Err(ApiError::TooLarge { limit: max });
        }
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}
