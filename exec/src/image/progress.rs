//! How a long operation reports.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use tokio::sync::mpsc;

use super::{ImageError, ImageRecord};

/// Steps kept for a slow reader; later ones are dropped, the end never is.
const QUEUE_STEPS: usize = 16;

/// A step of an operation.
#[derive(Debug)]
pub enum OperationStep {
    /// Bytes taken in so far.
    Bytes {
        /// So far.
        done: u64,
        /// In all, if known.
        total: Option<u64>,
    },
    /// Layers unpacked so far.
    Layers {
        /// So far.
        done: u32,
        /// In all.
        total: u32,
    },
    /// This image is ready to use.
    Ready(ImageRecord),
    /// It failed.
    Failed(ImageError),
}

/// An operation under way: its steps as a stream that ends after all its `Ready`s or a
/// `Failed`. Dropping it cancels the operation and undoes what is half-done.
#[derive(Debug)]
pub struct ImageOperation {
    steps: mpsc::Receiver<OperationStep>,
}

impl Stream for ImageOperation {
    type Item = OperationStep;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<OperationStep>> {
        self.steps.poll_recv(cx)
    }
}

impl ImageOperation {
    pub(super) fn new() -> (Reporter, Self) {
        let (sender, steps) = mpsc::channel(QUEUE_STEPS);
        (
            Reporter {
                sender,
                counts: Arc::default(),
            },
            Self { steps },
        )
    }

    /// Waits for the end and returns the images that are ready.
    pub async fn finish(self) -> Result<Vec<ImageRecord>, ImageError> {
        self.watched(|_| ()).await
    }

    /// The same, with every step shown to `watch`.
    pub async fn watched(
        mut self,
        watch: impl Fn(&OperationStep),
    ) -> Result<Vec<ImageRecord>, ImageError> {
        let mut images = Vec::new();
        while let Some(step) = self.next().await {
            watch(&step);
            match step {
                OperationStep::Bytes { .. } | OperationStep::Layers { .. } => {}
                OperationStep::Ready(image) => images.push(image),
                OperationStep::Failed(error) => return Err(error),
            }
        }
        // Only a task that was killed ends without a word.
        if images.is_empty() {
            Err(ImageError::Cancelled)
        } else {
            Ok(images)
        }
    }
}

#[derive(Debug, Default)]
struct ProgressCounts {
    bytes: AtomicU64,
    bytes_total: AtomicU64,
    layers: AtomicU32,
    layers_total: AtomicU32,
}

/// The operation's end of it.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    sender: mpsc::Sender<OperationStep>,
    counts: Arc<ProgressCounts>,
}

impl Reporter {
    /// Says how many bytes there will be.
    pub(super) fn expect_bytes(&self, total: u64) {
        self.counts.bytes_total.store(total, Ordering::Relaxed);
    }

    pub(super) fn expect_layers(&self, more: u32) {
        self.counts.layers_total.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn moved(&self, bytes: u64) {
        let done = self.counts.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.counts.bytes_total.load(Ordering::Relaxed);
        let total = (total > 0).then_some(total.max(done));
        let _ = self.sender.try_send(OperationStep::Bytes { done, total });
    }

    pub(super) fn unpacked(&self) {
        let done = self.counts.layers.fetch_add(1, Ordering::Relaxed) + 1;
        let total = self.counts.layers_total.load(Ordering::Relaxed);
        let _ = self.sender.try_send(OperationStep::Layers { done, total });
    }

    pub(super) async fn abandoned(&self) {
        self.sender.closed().await;
    }

    pub(super) async fn end(&self, result: Result<Vec<ImageRecord>, ImageError>) {
        match result {
            Ok(images) => {
                for image in images {
                    let _ = self.sender.send(OperationStep::Ready(image)).await;
                }
            }
            Err(error) => {
                let _ = self.sender.send(OperationStep::Failed(error)).await;
            }
        }
    }
}
