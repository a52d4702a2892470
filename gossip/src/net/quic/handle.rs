//! What the mesh holds of the network.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quinn::{Runtime as _, VarInt};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::config::{DIALS_MAX, EVENTS_MAX, LINGER, QuicConfig, STRANGER_EVENTS_MAX};
use super::event::{Admitted, ConnectionRefusal, Lane, LinkView, NetEvent};
use super::hold::HeldConnections;
use super::peer::QuicPeer;
use super::runtime::CountingRuntime;
use super::shared::{EndpointShared, close};
use super::socket::Closed;
use super::{accept, dial, tls};
use crate::frame::{DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX};
use crate::key::{NodeKey, Sign as _};
use crate::member::MemberId;
use crate::net::counters::{add, count};
use crate::net::keys::Ed25519Signer;
use crate::net::{MonotonicClock, NetCounters};

/// Why there is no endpoint. Nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum QuicError {
    /// The port cannot be had.
    #[error("cannot listen on UDP {address}: is another agent running, or the port taken?")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No certificate could be made of the node key.
    #[error("cannot make the node's TLS configuration")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The idle time is longer than QUIC can say.
    #[error("an idle time of {0:?} is too long for QUIC; use seconds")]
    Idle(Duration),
}

/// Sends frames and says who may. Cheap to clone; the endpoint lives till [`NetHandle::close`].
#[derive(Clone, Debug)]
pub struct NetHandle {
    pub(super) shared: Arc<EndpointShared>,
}

/// Listens. Must be called inside a tokio runtime.
///
/// # Errors
/// [`QuicError`] when the port or the keys cannot be used.
pub fn bind(
    config: QuicConfig,
    signer: &Ed25519Signer,
    clock: MonotonicClock,
) -> Result<(NetHandle, mpsc::Receiver<NetEvent>), QuicError> {
    let socket = socket(config.listen).map_err(|source| QuicError::Listen {
        address: config.listen,
        source,
    })?;
    open(Some(socket), config, signer, clock)
}

/// The socket of all links, with room for bursts where the system allows it.
///
/// # Errors
/// When the address cannot be had.
pub fn socket(listen: SocketAddr) -> io::Result<UdpSocket> {
    tls::socket(listen)
}

/// Listens at a socket that is open already. Without one no port is open until
/// [`NetHandle::rebind`] gives it a socket. Must be called inside a tokio runtime.
///
/// # Errors
/// [`QuicError`] when the socket or the keys cannot be used.
pub fn open(
    socket: Option<UdpSocket>,
    config: QuicConfig,
    signer: &Ed25519Signer,
    clock: MonotonicClock,
) -> Result<(NetHandle, mpsc::Receiver<NetEvent>), QuicError> {
    let pair = signer.keypair();
    let listen = |source| QuicError::Listen {
        address: config.listen,
        source,
    };
    let server = tls::server(&pair, &config)?;
    let port = watch::Sender::new(socket.is_some());
    let counters = Arc::<NetCounters>::default();
    let runtime = Arc::new(CountingRuntime(Arc::clone(&counters)));
    let socket = match socket {
        Some(socket) => runtime.wrap_udp_socket(socket).map_err(listen)?,
        None => Arc::new(Closed),
    };
    let endpoint = quinn::Endpoint::new_with_abstract_socket(
        tls::endpoint(signer),
        Some(server),
        socket,
        runtime,
    );
    let endpoint = endpoint.map_err(listen)?;
    let client = tls::client(&pair, &config)?;
    let (events, receiver) = mpsc::channel(EVENTS_MAX);
    let shared = Arc::new(EndpointShared {
        config,
        endpoint,
        client,
        me: signer.key(),
        clock,
        counters,
        events,
        requests: Mutex::default(),
        streams: Mutex::default(),
        stranger_events: Arc::new(Semaphore::new(STRANGER_EVENTS_MAX)),
        port,
        dials: Semaphore::new(DIALS_MAX),
        handshakes: AtomicUsize::new(0),
        held: HeldConnections::default(),
        hello: Mutex::default(),
        table: Mutex::default(),
    });
    tokio::spawn(accept::run(Arc::clone(&shared)));
    Ok((NetHandle { shared }, receiver))
}

impl NetHandle {
    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.shared.endpoint.local_addr()
    }

    /// What was refused and dropped.
    pub fn counters(&self) -> &Arc<NetCounters> {
        &self.shared.counters
    }

    /// This node's own admission, said first on every connection that it makes.
    pub fn hello(&self, record: Bytes) {
        let mut hello = self
            .shared
            .hello
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *hello = record;
    }

    /// The whole list of members but this node. Who is on it no more is disconnected; strangers
    /// that wait and are on it now are let in.
    pub fn members(&self, list: Vec<Admitted>) {
        let removed = self.shared.table().replace(list);
        removed.iter().for_each(|peer| disconnect(peer));
        self.let_in();
    }

    /// One more member, or other addresses of one.
    pub fn admit(&self, admitted: Admitted) {
        let removed = self.shared.table().admit(admitted);
        removed.iter().for_each(|peer| disconnect(peer));
        self.let_in();
    }

    /// The mesh has judged a hello: no member. A farewell is a frame that tells it why before the
    /// connection is closed.
    pub fn refuse(&self, key: &NodeKey, farewell: Option<Bytes>) {
        self.shared.held.refuse(key, farewell);
    }

    /// Sends a frame, or has it wait for the link that is made now. Never blocks: the newest are
    /// kept, signs of life go first.
    pub fn send(&self, to: MemberId, lane: Lane, bytes: Bytes) {
        let most = match lane {
            Lane::Liveness | Lane::Datagram => DATAGRAM_BYTES_MAX,
            Lane::Stream | Lane::Ordered => FRAME_BYTES_MAX,
        };
        if bytes.len() > most {
            return count(&self.shared.counters.oversize_out);
        }
        let peer = self.shared.table().member(to).cloned();
        match peer {
            Some(peer) => self.pass(&peer, lane, bytes),
            None => count(&self.shared.counters.unknown_member),
        }
    }

    fn pass(&self, peer: &Arc<QuicPeer>, lane: Lane, bytes: Bytes) {
        let mut state = peer.state();
        let dial = state.want(Instant::now());
        let len = bytes.len();
        let at_once = match (lane, state.open_link()) {
            (Lane::Stream | Lane::Ordered, _) | (_, None) => None,
            (Lane::Liveness, Some(link)) => Some(link),
            (Lane::Datagram, Some(link)) => {
                let room = link.connection.datagram_send_buffer_space() > len;
                Some(link).filter(|_| room && state.queue.no_datagram())
            }
        };
        match at_once.map(|link| link.connection.send_datagram(bytes.clone())) {
            Some(Ok(())) => {
                drop(state);
                count(&self.shared.counters.frames_out);
                add(&self.shared.counters.frame_bytes_out, len);
            }
            _ => {
                state.queue.push(self.shared.clock.now(), lane, bytes);
                drop(state);
                peer.ring();
            }
        }
        if dial {
            tokio::spawn(dial::run(Arc::clone(&self.shared), Arc::clone(peer)));
        }
    }

    /// The links there are.
    pub fn links(&self) -> Vec<LinkView> {
        let peers: Vec<Arc<QuicPeer>> = self.shared.table().peers().cloned().collect();
        peers.iter().filter_map(|peer| self.view(peer)).collect()
    }

    /// Connections there are, those of strangers and those not yet closed included.
    pub fn open_connections(&self) -> usize {
        self.shared.endpoint.open_connections()
    }

    /// Goes on at another socket: after the node got another address, or where it had no port. Links that this node dialed
    /// go with it; the others are made anew when something is sent.
    ///
    /// # Errors
    /// When the socket cannot be used; the old one remains.
    pub fn rebind(&self, socket: std::net::UdpSocket) -> io::Result<()> {
        self.shared.endpoint.rebind(socket)?;
        self.shared.port.send_replace(true);
        Ok(())
    }

    /// Closes all links and the port, and waits a moment for the others to hear it.
    pub async fn close(&self) {
        let code = VarInt::from_u32(ConnectionRefusal::Shutdown.code());
        self.shared
            .endpoint
            .close(code, ConnectionRefusal::Shutdown.text().as_bytes());
        let quiet = self.shared.endpoint.wait_idle();
        let _ = tokio::time::timeout(Duration::from_millis(500), quiet).await;
        self.close_port();
    }

    /// Sets the port free. Links end for want of packets; [`NetHandle::rebind`] opens a port again.
    pub fn close_port(&self) {
        self.shared.port.send_replace(false);
        // The endpoint keeps its socket, and the one before for a while: so twice.
        for _ in 0..2 {
            if let Err(error) = self.shared.endpoint.rebind_abstract(Arc::new(Closed)) {
                tracing::warn!(%error, "the port of the mesh stays taken until the agent ends");
            }
        }
    }

    fn let_in(&self) {
        self.shared
            .held
            .admit(|key| self.shared.table().of_key(key).is_some());
    }

    fn view(&self, peer: &QuicPeer) -> Option<LinkView> {
        let mut state = peer.state();
        let link = state.open_link()?.clone();
        if state.moved(link.address()) {
            count(&self.shared.counters.moved);
        }
        drop(state);
        let stats = link.connection.stats();
        Some(LinkView {
            member: peer.id,
            address: link.address(),
            dialed: link.dialed,
            rtt_us: u64::try_from(stats.path.rtt.as_micros()).unwrap_or(u64::MAX),
            mtu_bytes: stats.path.current_mtu,
            sent_bytes: stats.udp_tx.bytes,
            received_bytes: stats.udp_rx.bytes,
            lost_packets: stats.path.lost_packets,
        })
    }
}

/// Ends the link to a member that was removed. An answer that is on its way arrives first: it may
/// be the one that says so to a member that leaves.
fn disconnect(peer: &QuicPeer) {
    let Some(link) = peer.state().remove() else {
        return;
    };
    if !link.underway.is_any() {
        return close(&link.connection, ConnectionRefusal::Removed);
    }
    tokio::spawn(async move {
        tokio::time::sleep(LINGER).await;
        close(&link.connection, ConnectionRefusal::Removed);
    });
}
