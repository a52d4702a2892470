//! The signals that end a command which waits.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};

use super::error::CliError;
use super::status::CliStatus;

/// So many signals may wait to be noticed.
const SIGNALS_MAX: usize = 4;

/// SIGINT and SIGTERM, by their numbers. While it is there, they do not end the process.
pub(super) struct Signals(pub(super) Receiver<u8>);

impl Signals {
    pub(super) fn new() -> Result<Self, CliError> {
        let (sender, signals) = mpsc::channel(SIGNALS_MAX);
        for (kind, number) in [(SignalKind::interrupt(), 2), (SignalKind::terminate(), 15)] {
            let mut watched = signal(kind)
                .map_err(|error| CliError::Usage(format!("cannot watch for signals: {error}")))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while watched.recv().await.is_some() && sender.send(number).await.is_ok() {}
            });
        }
        Ok(Self(signals))
    }

    /// The next signal; never, once there can be none.
    pub(super) async fn next(&mut self) -> u8 {
        match self.0.recv().await {
            Some(number) => number,
            None => std::future::pending().await,
        }
    }
}

/// How a shell says that a signal ended something.
pub(super) const fn interrupted_by(signal: u8) -> CliStatus {
    CliStatus::Task(128 + signal)
}
