//! What the service manager lends the agent: a socket to say how the agent is ([`messages`]), and
//! a store that holds the agent's ports while it restarts ([`kept`]).
//!
//! Tasks share the host's network, so one could take a port of the agent's in the moment between
//! two agents, and collect what users send there. The agent therefore gives its open sockets to
//! the service manager, which keeps them over a crash, a restart and an upgrade, and hands them to
//! the next agent. A client that connects meanwhile waits and is not refused. `systemctl stop` closes
//! them. agent.toml alone says which addresses there are.
//!
//! Without a service manager nothing here does anything.

mod environment;
mod kept;
mod messages;
mod reservation;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;

use self::environment::ServiceEnvironment;
use self::kept::KeptSockets;
use self::messages::Channel;
use self::reservation::{PortOpening, Reservation};

/// The name of REST's listener at the service manager's.
const HTTP: &str = "http";
/// The name of the mesh's UDP socket there.
const MESH: &str = "mesh";

/// The name of the sockets that hold the mesh's TCP addresses.
const MESH_TCP: &str = "mesh-tcp";

/// The service manager, or none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manager {
    channel: Option<Arc<Channel>>,
    /// Sockets that the agent before left behind, until they are taken over.
    kept: Arc<Mutex<KeptSockets>>,
    /// The mesh's socket, once there is one. The agent holds it until it ends, for the service
    /// manager does so too: a node that leaves a cluster and joins another could not bind again.
    mesh: Arc<Mutex<Option<UdpSocket>>>,
    /// What holds the mesh's TCP addresses.
    mesh_tcp: Arc<Mutex<Vec<Reservation>>>,
}

impl Manager {
    /// Reads what the service manager says in the environment and takes it out of there, so that
    /// nothing that the agent starts takes itself for the agent. Called once, before there are
    /// threads.
    pub(crate) fn from_environment() -> Self {
        let environment = ServiceEnvironment::take();
        Self {
            channel: environment.channel().map(Arc::new),
            kept: Arc::new(Mutex::new(environment.kept())),
            mesh: Arc::default(),
            mesh_tcp: Arc::default(),
        }
    }

    /// The agent serves; the text says what. Sockets that it has not taken over are closed.
    pub(crate) fn ready(&self, status: &str) {
        let names = lock(&self.kept).names();
        for name in names {
            self.close_others(&name);
        }
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// What the agent is at, for `systemctl status`.
    pub(crate) fn status(&self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// The agent ends in good order.
    pub(crate) fn stopping(&self, status: &str) {
        self.send(&format!("STOPPING=1\nSTATUS={}", line(status)));
    }

    /// All loops are well.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// REST's listener: the one that the agent before left, if it has this address, else a new
    /// one, which is left for the next agent.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub(crate) async fn http(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let kept = lock(&self.kept).tcp(HTTP, address);
        self.close_others(HTTP);
        if let Some(kept) = kept {
            kept.set_nonblocking(true)?;
            return TcpListener::from_std(kept);
        }
        let listener = TcpListener::bind(address).await?;
        self.keep(HTTP, &listener);
        Ok(listener)
    }

    /// The same for the mesh's socket, which `bind` opens where there is none.
    ///
    /// # Errors
    /// When `bind` fails.
    pub(crate) fn mesh(
        &self,
        address: SocketAddr,
        bind: impl FnOnce(SocketAddr) -> io::Result<UdpSocket>,
    ) -> io::Result<UdpSocket> {
        if self.channel.is_none() {
            return bind(address);
        }
        let mut mesh = lock(&self.mesh);
        if let Some(open) = &*mesh {
            return open.try_clone();
        }
        let kept = lock(&self.kept).udp(MESH, address);
        self.close_others(MESH);
        let socket = match kept {
            Some(kept) => kept,
            None => {
                let socket = bind(address)?;
                self.keep(MESH, &socket);
                socket
            }
        };
        *mesh = Some(socket.try_clone()?);
        Ok(socket)
    }

    /// Lets the mesh bind to its TCP addresses until the opening is dropped. Nobody else can from
    /// then on, whether the agent runs or restarts.
    pub(crate) fn mesh_tcp(&self, addresses: &[SocketAddr]) -> PortOpening {
        let mut held = lock(&self.mesh_tcp);
        if self.channel.is_some() {
            for address in addresses.iter().filter(|address| address.port() != 0) {
                if !held.iter().any(|one| one.is_at(*address)) {
                    held.extend(self.reserve(*address));
                }
            }
            self.close_others(MESH_TCP);
        }
        PortOpening::new(held.clone())
    }

    fn reserve(&self, address: SocketAddr) -> Option<Reservation> {
        if let Some(kept) = lock(&self.kept).tcp(MESH_TCP, address) {
            return Some(Reservation::kept(address, kept.into()));
        }
        let reservation = Reservation::new(address)
            .inspect_err(|error| {
                tracing::info!(%address, %error, "a port of the mesh is not held while the agent restarts");
            })
            .ok()?;
        self.keep(MESH_TCP, &reservation);
        Some(reservation)
    }

    fn keep(&self, name: &str, socket: &impl AsFd) {
        if let Some(channel) = &self.channel {
            channel.keep(name, socket.as_fd());
        }
    }

    /// Closes what was handed over under that name and not taken. A socket at another address
    /// than the configured one would hold that address for nobody, or be in the way of this one.
    fn close_others(&self, name: &str) {
        let others = lock(&self.kept).remove(name);
        if others.is_empty() {
            return;
        }
        let at: Vec<_> = others.into_iter().flatten().collect();
        tracing::warn!(
            name,
            ?at,
            "the service manager handed over a socket that agent.toml does not name; it is closed"
        );
        if let Some(channel) = &self.channel {
            channel.forget(name);
        }
    }

    fn send(&self, message: &str) {
        if let Some(channel) = &self.channel {
            channel.send(message);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line: the next one would be another message.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests;
