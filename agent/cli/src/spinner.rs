//! Signs of life on stderr for what takes longer than a moment.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What is done sooner shows no progress.
const DELAY: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// A line that shows what is being waited for; gone when dropped. Hidden unless stderr is a
/// terminal.
#[derive(Debug)]
pub(super) struct Spinner {
    bar: ProgressBar,
    reveal: JoinHandle<()>,
}

impl Spinner {
    pub(super) fn new(message: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_message(message.into());
        let shown = bar.clone();
        let reveal = tokio::spawn(async move {
            sleep(DELAY).await;
            shown.set_draw_target(ProgressDrawTarget::stderr());
            shown.enable_steady_tick(TICK);
        });
        Self { bar, reveal }
    }

    /// Says something else.
    pub(super) fn message(&self, message: impl Into<String>) {
        self.bar.set_message(message.into());
    }

    /// What it says.
    #[cfg(test)]
    pub(super) fn shown(&self) -> String {
        self.bar.message()
    }

    /// Takes the line away while something else is written.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Shows bytes moved, as a bar where the total is known.
    pub(super) fn bytes(&self, done: u64, total: Option<u64>) {
        let template = if total.is_some() {
            "{spinner} {msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {eta}"
        } else {
            "{spinner} {msg} {binary_bytes}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
        if let Some(total) = total {
            self.bar.set_length(total);
        }
        self.bar.set_position(done);
    }

    /// Takes the line away for good, before output of another kind.
    pub(super) fn clear(&self) {
        self.reveal.abort();
        self.bar.finish_and_clear();
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.clear();
    }
}
