//! Connections through the server: to ports and sockets that the task reaches, and to the client's agent.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use russh::server::{ChannelOpenHandle, Handle, Msg};
use russh::{Channel, ChannelOpenFailure};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client_config::DIRECTORY;
use crate::resolve;

/// How long a connection may take to come about.
const LIMIT: Duration = Duration::from_secs(15);
/// The socket in an agent's directory.
const AGENT_SOCKET: &str = "agent";
const MODE_PRIVATE: u32 = 0o700;

/// Joins a channel with what it is to reach, until both sides have ended.
pub(crate) async fn join(channel: Channel<Msg>, mut other: impl AsyncRead + AsyncWrite + Unpin) {
    let mut stream = channel.into_stream();
    // A connection that breaks concerns its two ends.
    let _ = copy_bidirectional(&mut stream, &mut other).await;
}

/// A port of a machine, as the task sees it.
pub(crate) async fn to_port(
    host: String,
    port: u16,
    channel: Channel<Msg>,
    reply: ChannelOpenHandle,
) {
    match timeout(LIMIT, connect(&host, port)).await {
        Ok(Some(stream)) => {
            reply.accept().await;
            join(channel, stream).await;
        }
        _ => reply.reject(ChannelOpenFailure::ConnectFailed).await,
    }
}

async fn connect(host: &str, port: u16) -> Option<TcpStream> {
    for address in resolve::addresses(host).await {
        if let Ok(stream) = TcpStream::connect((address, port)).await {
            let _ = stream.set_nodelay(true);
            return Some(stream);
        }
    }
    None
}

/// A socket in the container.
pub(crate) async fn to_socket(path: String, channel: Channel<Msg>, reply: ChannelOpenHandle) {
    match UnixStream::connect(path).await {
        Ok(stream) => {
            reply.accept().await;
            join(channel, stream).await;
        }
        Err(_) => reply.reject(ChannelOpenFailure::ConnectFailed).await,
    }
}

/// A socket behind which the client's agent is, as long as this is kept.
#[derive(Debug)]
pub(crate) struct AgentSocket {
    directory: PathBuf,
    /// Its listener and connections.
    _running: JoinSet<()>,
}

impl AgentSocket {
    /// Makes one that only the container's user can reach.
    ///
    /// # Errors
    /// When no directory of the container can be written.
    pub(crate) fn new(handle: Handle) -> io::Result<Self> {
        let directory = private_directory()?;
        let listener = UnixListener::bind(directory.join(AGENT_SOCKET))?;
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(to_agent(stream, handle.clone()));
            }
        });
        Ok(Self {
            directory,
            _running: running,
        })
    }

    /// What programs are told as SSH_AUTH_SOCK.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(AGENT_SOCKET)
    }
}

impl Drop for AgentSocket {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

async fn to_agent(stream: UnixStream, handle: Handle) {
    if let Ok(channel) = handle.channel_open_agent().await {
        join(channel, stream).await;
    }
}

/// A new directory that no other user of the container can enter.
fn private_directory() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!(
        "muster-agent-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let places = [Path::new(DIRECTORY).parent(), Some(Path::new("/tmp"))];
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for place in places.into_iter().flatten() {
        let directory = place.join(&name);
        match DirBuilder::new().mode(MODE_PRIVATE).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) => last = error,
        }
    }
    Err(last)
}
