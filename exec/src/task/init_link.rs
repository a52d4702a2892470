//! The agent's end of the socket to one task's muster-init.

use std::fs::File;
use std::future::pending;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use muster_init::frame::Decoder;
use muster_init::message::{ToAgent, ToInit};
use muster_init::task_dir::AGENT_SOCKET;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, timeout};

const READ_BYTES: usize = 16 << 10;
/// A muster-init that does not read for so long is disconnected, and will say hello again.
const SEND_PATIENCE: Duration = Duration::from_secs(5);
/// Wait after a failed accept: usually this process is out of descriptors.
const ACCEPT_WAIT: Duration = Duration::from_millis(200);

/// Refused connections are told of at most so often.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Listens for one muster-init and talks with it.
#[derive(Debug)]
pub(super) struct InitLink {
    listener: UnixListener,
    /// The container's first process as the engine sees it. Nobody else is listened to.
    pid: u32,
    connection: Option<Connection>,
    refused: RefusedConnections,
}

/// Connections of others than muster-init. A task can make any number of them.
#[derive(Debug, Default)]
struct RefusedConnections {
    /// Since the last line of the log.
    count: u64,
    last_told: Option<Instant>,
}

impl RefusedConnections {
    /// Counts one more. The count since the last line, if it is time for a line.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.count += 1;
        let is_quiet = |at: Instant| now.saturating_duration_since(at) < REFUSED_PAUSE;
        if self.last_told.is_some_and(is_quiet) {
            return None;
        }
        self.last_told = Some(now);
        Some(std::mem::take(&mut self.count))
    }
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    decoder: Decoder,
}

impl InitLink {
    /// Binds the socket. A muster-init that is away from its agent finds it by its name.
    pub(super) fn bind(ctl: &Path) -> io::Result<UnixListener> {
        let dir = File::open(ctl)?;
        let listener = muster_init::connection::listen(dir.as_fd(), AGENT_SOCKET)?;
        UnixListener::from_std(listener)
    }

    pub(super) fn new(listener: UnixListener, pid: u32) -> Self {
        Self {
            listener,
            pid,
            connection: None,
            refused: RefusedConnections::default(),
        }
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// The next message, over as many connections as it takes. May be dropped at any time
    /// without losing one.
    pub(super) async fn next(&mut self) -> ToAgent {
        loop {
            if let Some(message) = self.decode() {
                return message;
            }
            tokio::select! {
                // First: what was received must be taken before a new connection replaces it.
                biased;
                open = read(&mut self.connection) => {
                    if !open {
                        self.connection = None;
                    }
                }
                stream = accept(&self.listener, self.pid, &mut self.refused) => {
                    self.connection = Some(Connection { stream, decoder: Decoder::default() });
                }
            }
        }
    }

    /// What still comes once the container has ended, or `None` when nothing does.
    pub(super) async fn next_left(&mut self, patience: Duration) -> Option<ToAgent> {
        timeout(patience, async {
            loop {
                if let Some(message) = self.decode() {
                    return Some(message);
                }
                if self.connection.is_none() || !read(&mut self.connection).await {
                    return None;
                }
            }
        })
        .await
        .ok()
        .flatten()
    }

    /// Sends, if it is connected. What it misses is said after its next hello.
    pub(super) async fn send(&mut self, message: &ToInit) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let sent = match message.encode() {
            Ok(frame) => timeout(SEND_PATIENCE, connection.stream.write_all(&frame)).await,
            Err(error) => {
                tracing::error!(%error, "a message to muster-init cannot be encoded");
                return;
            }
        };
        if !matches!(sent, Ok(Ok(()))) {
            self.connection = None;
        }
    }

    /// The next message of those received. One that is not understood ends the connection.
    fn decode(&mut self) -> Option<ToAgent> {
        let connection = self.connection.as_mut()?;
        loop {
            let message = match connection.decoder.next_frame() {
                Ok(None) => return None,
                Ok(Some(frame)) => ToAgent::decode(&frame),
                Err(error) => Err(error),
            };
            match message {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(pid = self.pid, %error, "muster-init is not understood");
                    self.connection = None;
                    return None;
                }
            }
        }
    }
}

/// Receives more. `false`: the connection ended. Never returns without a connection.
async fn read(connection: &mut Option<Connection>) -> bool {
    let Some(connection) = connection else {
        return pending().await;
    };
    loop {
        if connection.stream.readable().await.is_err() {
            return false;
        }
        match connection.read_now() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => return false,
            Ok(_) => return true,
        }
    }
}

impl Connection {
    /// Receives what is there. Apart from `read` so that no task keeps the buffer while it
    /// waits, which is all the time.
    fn read_now(&mut self) -> io::Result<usize> {
        let mut buffer = [0; READ_BYTES];
        let count = self.stream.try_read(&mut buffer)?;
        self.decoder.push(&buffer[..count]);
        Ok(count)
    }
}

/// The next connection of the process `pid`. Users' processes can reach the socket too; theirs
/// are closed.
async fn accept(listener: &UnixListener, pid: u32, refused: &mut RefusedConnections) -> UnixStream {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(pid, %error, "cannot accept a connection of muster-init");
                tokio::time::sleep(ACCEPT_WAIT).await;
                continue;
            }
        };
        let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
        match peer.map(i32::cast_unsigned) {
            Some(peer) if peer == pid => return stream,
            peer => {
                if let Some(connections) = refused.add(Instant::now()) {
                    tracing::warn!(
                        pid,
                        ?peer,
                        connections,
                        "others than a task's first process connected to its socket and were refused"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_connections_are_one_line_a_minute_with_their_count() {
        let start = Instant::now();
        let mut refused = RefusedConnections::default();
        assert_eq!(refused.add(start), Some(1));
        for _ in 0..20_000 {
            assert_eq!(refused.add(start + Duration::from_secs(59)), None);
        }
        assert_eq!(refused.add(start + REFUSED_PAUSE), Some(20_001));
        assert_eq!(refused.add(start + REFUSED_PAUSE), None);
    }
}
