//! The connection to the agent, which may be away at any time.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::connection::FramedSocket;
use crate::message::{ToAgent, ToInit};
use crate::task_dir::AGENT_SOCKET;

/// First wait for an agent that is away.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Longest wait between two tries.
const RETRY_MAX: Duration = Duration::from_millis(500);
/// Unsent bytes at which an agent that does not read is given up: it will say hello again.
const BACKLOG_BYTES_MAX: usize = 64 << 10;

/// The way to the agent.
#[derive(Debug)]
pub(crate) struct AgentLink {
    connection: Option<FramedSocket>,
    next_try: Instant,
    wait: Duration,
}

impl AgentLink {
    pub(crate) fn new() -> Self {
        Self {
            connection: None,
            next_try: Instant::now(),
            wait: RETRY_FIRST,
        }
    }

    pub(crate) const fn connection(&self) -> Option<&FramedSocket> {
        self.connection.as_ref()
    }

    /// When to call [`AgentLink::connect`] again; `None` while connected.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.connection.is_none().then_some(self.next_try)
    }

    /// Tries to connect if it is time to. Says whether there is a new connection.
    pub(crate) fn connect(&mut self, ctl: &OwnedFd) -> bool {
        let now = Instant::now();
        if self.connection.is_some() || now < self.next_try {
            return false;
        }
        self.connection = FramedSocket::connect(ctl.as_fd(), AGENT_SOCKET).ok();
        match self.connection {
            Some(_) => self.wait = RETRY_FIRST,
            None => self.retry_later(now),
        }
        self.connection.is_some()
    }

    /// Sends to the agent, if it is there. What it misses it learns from the next hello.
    pub(crate) fn send(&mut self, message: &ToAgent) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let sent = message
            .encode()
            .is_ok_and(|frame| connection.send(&frame).is_ok());
        if !sent || connection.backlog() > BACKLOG_BYTES_MAX {
            self.drop_connection();
        }
    }

    /// Moves bytes in both directions and returns what the agent said.
    pub(crate) fn receive(&mut self) -> Vec<ToInit> {
        let mut messages = Vec::new();
        let Some(connection) = &mut self.connection else {
            return messages;
        };
        let open = connection.send_unsent().is_ok() && connection.receive().unwrap_or(false);
        let sound = decode_all(connection, &mut messages);
        if !open || !sound {
            self.drop_connection();
        }
        messages
    }

    /// Waits until everything was sent. Says whether it was.
    pub(crate) fn send_all(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while let Some(connection) = &mut self.connection {
            if connection.send_unsent().is_err() {
                self.drop_connection();
            } else if connection.backlog() == 0 {
                return true;
            } else if !connection.wait(deadline) {
                return false;
            }
        }
        false
    }

    fn drop_connection(&mut self) {
        self.connection = None;
        self.wait = RETRY_FIRST;
        self.retry_later(Instant::now());
    }

    fn retry_later(&mut self, now: Instant) {
        self.next_try = now + self.wait;
        self.wait = (self.wait * 2).min(RETRY_MAX);
    }
}

/// Decodes what was received. `false`: it was not understood, and nothing after it can be.
fn decode_all(connection: &mut FramedSocket, messages: &mut Vec<ToInit>) -> bool {
    loop {
        match connection.next_frame() {
            Ok(None) => return true,
            Ok(Some(frame)) => match ToInit::decode(&frame) {
                Ok(message) => messages.extend(message),
                Err(_) => return false,
            },
            Err(_) => return false,
        }
    }
}
