//! Ports and sockets of the task that lead to the client (`ssh -R`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use russh::server::Handle;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;

use crate::forward::join;

/// Ports and sockets that a connection may have.
const FORWARDS_MAX: usize = 64;

/// Those of one connection, by what the client calls them. They end with it.
#[derive(Debug, Default)]
pub(crate) struct RemoteForwards {
    listeners: BTreeMap<(String, u32), ForwardListener>,
}

#[derive(Debug)]
struct ForwardListener {
    _running: JoinSet<()>,
    /// Removed at the end.
    socket: Option<PathBuf>,
}

impl Drop for ForwardListener {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = fs::remove_file(socket);
        }
    }
}

impl RemoteForwards {
    /// Listens on a port of the loopback address, also where another address was asked for: other machines reach
    /// those. 0 for any port.
    ///
    /// # Errors
    /// When the port is taken, or there are too many.
    pub(crate) async fn listen(
        &mut self,
        address: &str,
        port: u32,
        handle: Handle,
    ) -> io::Result<u16> {
        self.check_room()?;
        let wanted = u16::try_from(port).map_err(io::Error::other)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await?;
        let port = listener.local_addr()?.port();
        let named = address.to_owned();
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, from)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(from_port(
                    stream,
                    from,
                    (named.clone(), port),
                    handle.clone(),
                ));
            }
        });
        self.keep((address.to_owned(), port.into()), running, None);
        Ok(port)
    }

    /// Listens on a socket of the container.
    ///
    /// # Errors
    /// When it cannot be made, or there are too many.
    pub(crate) fn listen_at(&mut self, path: &str, handle: Handle) -> io::Result<()> {
        self.check_room()?;
        let listener = UnixListener::bind(path)?;
        let named = path.to_owned();
        let mut running = JoinSet::new();
        running.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(from_socket(stream, named.clone(), handle.clone()));
            }
        });
        self.keep((path.to_owned(), 0), running, Some(path.into()));
        Ok(())
    }

    /// Ends one. Whether there was one.
    pub(crate) fn stop(&mut self, address: &str, port: u32) -> bool {
        self.listeners.remove(&(address.to_owned(), port)).is_some()
    }

    fn check_room(&self) -> io::Result<()> {
        match self.listeners.len() < FORWARDS_MAX {
            true => Ok(()),
            false => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    }

    fn keep(&mut self, name: (String, u32), running: JoinSet<()>, socket: Option<PathBuf>) {
        let listener = ForwardListener {
            _running: running,
            socket,
        };
        self.listeners.insert(name, listener);
    }
}

async fn from_port(
    stream: TcpStream,
    from: SocketAddr,
    (address, port): (String, u16),
    handle: Handle,
) {
    let (from, from_port) = (from.ip().to_string(), u32::from(from.port()));
    let opened = handle.channel_open_forwarded_tcpip(address, port.into(), from, from_port);
    if let Ok(channel) = opened.await {
        join(channel, stream).await;
    }
}

async fn from_socket(stream: UnixStream, path: String, handle: Handle) {
    if let Ok(channel) = handle.channel_open_forwarded_streamlocal(path).await {
        join(channel, stream).await;
    }
}
