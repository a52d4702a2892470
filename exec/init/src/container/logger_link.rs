//! The connection to the task's logger: runtime log lines, flush and the stored exit.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::connection::{BACKLOG_BYTES_HIGH, FramedSocket};
use crate::exit_report::ExitReport;
use crate::message::{Flush, FromLogger, RuntimeLog, ToLogger};
use crate::task_dir::LOGGER_SOCKET;
use crate::wall_clock::{TimeStamp, now_ms};

/// The way to the logger. It is there for the whole task or not at all.
#[derive(Debug)]
pub(crate) struct LoggerLink {
    connection: Option<FramedSocket>,
}

impl LoggerLink {
    /// Connects, before any command of the image could.
    pub(crate) fn connect(ctl: &OwnedFd) -> Self {
        Self {
            connection: FramedSocket::connect(ctl.as_fd(), LOGGER_SOCKET).ok(),
        }
    }

    pub(crate) const fn connection(&self) -> Option<&FramedSocket> {
        self.connection.as_ref()
    }

    /// Whether it takes more without a growing backlog.
    pub(crate) fn is_ready(&self) -> bool {
        self.connection
            .as_ref()
            .is_none_or(|connection| connection.backlog() < BACKLOG_BYTES_HIGH)
    }

    /// Adds one line of our own to the runtime log.
    pub(crate) fn say(&mut self, text: &str) {
        self.lines([text.as_bytes()]);
    }

    /// Adds lines to the runtime log, each with its stamp.
    pub(crate) fn lines<'a>(&mut self, lines: impl IntoIterator<Item = &'a [u8]>) {
        let prefix = format!("[{}] [openpai-runtime] ", TimeStamp(now_ms()));
        let mut text = Vec::new();
        for line in lines {
            text.extend_from_slice(prefix.as_bytes());
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        if !text.is_empty() {
            self.send(&ToLogger::RuntimeLog(RuntimeLog { lines: text }));
        }
    }

    /// Moves bytes in both directions; what the logger says unasked is of no interest.
    pub(crate) fn exchange(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let open = connection.send_unsent().is_ok() && connection.receive().unwrap_or(false);
        if !open {
            self.connection = None;
        }
    }

    /// Has everything written that was output until now.
    pub(crate) fn flush(&mut self, patience: Duration) {
        self.send(&ToLogger::Flush(Flush {}));
        self.wait_for(patience, |answer| matches!(answer, FromLogger::Flushed(_)));
    }

    /// Has the exit stored.
    pub(crate) fn store(&mut self, report: &ExitReport) {
        self.send(&ToLogger::StoreExit(report.clone()));
    }

    /// Waits until the exit is stored.
    pub(crate) fn wait_stored(&mut self, patience: Duration) {
        self.wait_for(patience, |answer| {
            matches!(answer, FromLogger::ExitStored(_))
        });
    }

    fn send(&mut self, message: &ToLogger) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let sent = message
            .encode()
            .is_ok_and(|frame| connection.send(&frame).is_ok());
        if !sent {
            self.connection = None;
        }
    }

    fn wait_for(&mut self, patience: Duration, wanted: fn(&FromLogger) -> bool) {
        let deadline = Instant::now() + patience;
        while let Some(connection) = &mut self.connection {
            match next_answer(connection) {
                Ok(Some(answer)) if wanted(&answer) => return,
                Ok(Some(_)) => {}
                Ok(None) if connection.wait(deadline) => self.exchange(),
                Ok(None) => return,
                Err(_) => self.connection = None,
            }
        }
    }
}

/// The next answer of a known kind that was received.
fn next_answer(connection: &mut FramedSocket) -> io::Result<Option<FromLogger>> {
    while let Some(frame) = connection.next_frame().map_err(io::Error::other)? {
        if let Some(answer) = FromLogger::decode(&frame).map_err(io::Error::other)? {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}
