//! The logger's socket and its one connection.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::poll::{PollFd, PollFlags};

use crate::connection::{FramedSocket, listen};
use crate::message::{FromLogger, ToLogger};
use crate::task_dir::LOGGER_SOCKET;

/// Waits for its one connection, has it, or is over with it.
#[derive(Debug)]
pub(crate) enum Control {
    Listening(UnixListener),
    Connected(FramedSocket),
    Closed,
}

impl Control {
    /// Listens in the directory `ctl`. Without one the logger does its work unasked.
    pub(crate) fn listen(ctl: &Path) -> Self {
        let listener = File::open(ctl)
            .map(OwnedFd::from)
            .and_then(|dir| listen(dir.as_fd(), LOGGER_SOCKET));
        match listener {
            Ok(listener) => Self::Listening(listener),
            Err(error) => {
                eprintln!("muster-init: no socket in {}: {error}", ctl.display());
                Self::Closed
            }
        }
    }

    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self, Self::Connected(_))
    }

    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match self {
            Self::Listening(listener) => Some(PollFd::new(listener.as_fd(), PollFlags::POLLIN)),
            Self::Connected(connection) => {
                Some(PollFd::new(connection.as_fd(), connection.interest()))
            }
            Self::Closed => None,
        }
    }

    /// Accepts if it is time to, moves bytes in both directions, returns what came.
    pub(crate) fn receive(&mut self) -> Vec<ToLogger> {
        if let Self::Listening(listener) = self
            && let Ok((stream, _)) = listener.accept()
        {
            *self = FramedSocket::new(stream).map_or(Self::Closed, Self::Connected);
        }
        let mut messages = Vec::new();
        if let Self::Connected(connection) = self {
            let open = connection.send_unsent().is_ok() & connection.receive().unwrap_or(false);
            let sound = decode_all(connection, &mut messages);
            if !open || !sound {
                *self = Self::Closed;
            }
        }
        messages
    }

    pub(crate) fn send(&mut self, answer: &FromLogger) {
        if let Self::Connected(connection) = self {
            let sent = answer
                .encode()
                .is_ok_and(|frame| connection.send(&frame).is_ok());
            if !sent {
                *self = Self::Closed;
            }
        }
    }
}

/// Decodes what was received. `false`: it was not understood, and nothing after it can be.
fn decode_all(connection: &mut FramedSocket, messages: &mut Vec<ToLogger>) -> bool {
    loop {
        match connection.next_frame() {
            Ok(None) => return true,
            Ok(Some(frame)) => match ToLogger::decode(&frame) {
                Ok(message) => messages.extend(message),
                Err(_) => return false,
            },
            Err(_) => return false,
        }
    }
}
