//! The task that owns the swarm: connects, asks, and hands on what others ask.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use libp2p::core::ConnectedPoint;
use libp2p::core::transport::ListenerId;
use libp2p::multiaddr::Protocol as Part;
use libp2p::request_response::{
    self as request_response, Event, Message, OutboundFailure, OutboundRequestId, ProtocolSupport,
};
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::dial_opts::DialOpts;
use libp2p::swarm::{ConnectionId, DialError, NetworkBehaviour, SwarmEvent};
use libp2p::{Multiaddr, PeerId, Swarm, SwarmBuilder, mdns, noise, tcp, yamux};
use tokio::sync::mpsc;

use super::config::{ANSWER_TIME, CONNECT_TIME, IDLE, JoinNetConfig, LETTERS_MAX, STREAMS_MAX};
use super::connection_limits::{AdmittedPeers, ConnectionLimits};
use super::found::{DiscoveredPeers, socket};
use super::gated::MembersOnly;
use super::letter::QuestionCodec;
use super::protocol::QuestionProtocol;
use super::questions::{
    self, AskError, EndpointCommand, Inbound, OutgoingQuestion, QuestionReply, QuestionResponder,
};
use crate::net::NetCounters;
use crate::net::counters::count;
use crate::net::keys::{self, Ed25519Signer};

type Exchanges = request_response::Behaviour<QuestionCodec>;
type ExchangeEvent = Event<Vec<u8>, Vec<u8>>;

/// What the node does over TCP.
#[derive(NetworkBehaviour)]
#[behaviour(prelude = "libp2p::swarm::derive_prelude")]
struct Behaviour {
    connection_limits: ConnectionLimits,
    join: Exchanges,
    echo: MembersOnly<Exchanges>,
    mdns: Toggle<mdns::tokio::Behaviour>,
}

/// Where things that happen go.
#[derive(Debug)]
pub(super) struct EndpointChannels {
    pub(super) counters: Arc<NetCounters>,
    pub(super) inbound: mpsc::Sender<Inbound>,
    /// Does not keep the endpoint open.
    pub(super) answers: mpsc::WeakSender<EndpointCommand>,
    pub(super) found: DiscoveredPeers,
}

/// A question that was sent.
struct SentQuestion {
    address: SocketAddr,
    reply: QuestionReply,
}

/// Owns the swarm.
pub(super) struct JoinEndpoint {
    swarm: Swarm<Behaviour>,
    channels: EndpointChannels,
    /// Questions that wait for their connection.
    dialing: BTreeMap<ConnectionId, OutgoingQuestion>,
    /// Questions that wait for their answer.
    sent: BTreeMap<(QuestionProtocol, OutboundRequestId), SentQuestion>,
    /// The newest connection that this node made to an address, with whom.
    open: BTreeMap<SocketAddr, (ConnectionId, PeerId)>,
    /// Where the other end of each connection is, whoever made it.
    ends: BTreeMap<ConnectionId, SocketAddr>,
    listeners: Vec<ListenerId>,
}

/// How often overdue guests are looked for.
const SWEEP: Duration = Duration::from_secs(5);

fn letters(protocol: QuestionProtocol) -> Exchanges {
    let config = request_response::Config::default()
        .with_request_timeout(ANSWER_TIME)
        .with_max_concurrent_streams(LETTERS_MAX);
    let names = [(protocol.name(), ProtocolSupport::Full)];
    Exchanges::with_codec(QuestionCodec(protocol), names, config)
}

fn yamux() -> yamux::Config {
    let mut config = yamux::Config::default();
    config.set_max_num_streams(STREAMS_MAX);
    config
}

fn discovery(wanted: bool, me: PeerId) -> Option<mdns::tokio::Behaviour> {
    let found = wanted.then(|| mdns::tokio::Behaviour::new(mdns::Config::default(), me));
    found?
        .inspect_err(|error| tracing::warn!(%error, "no discovery in the local network"))
        .ok()
}

fn multiaddr(address: SocketAddr) -> Multiaddr {
    Multiaddr::from(address.ip()).with(Part::Tcp(address.port()))
}

/// A host without IPv6 still has its other address.
fn is_any_ipv6(address: &SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

impl JoinEndpoint {
    pub(super) fn new(
        config: &JoinNetConfig,
        signer: &Ed25519Signer,
        members: AdmittedPeers,
        channels: EndpointChannels,
    ) -> Result<Self, questions::ListenError> {
        let connection_limits = ConnectionLimits::new(
            members.clone(),
            Arc::clone(&channels.counters),
            config.address_rate,
        );
        let pair = signer.keypair();
        let behaviour = Behaviour {
            connection_limits,
            join: letters(QuestionProtocol::Join),
            echo: MembersOnly::new(letters(QuestionProtocol::Echo), members),
            mdns: discovery(config.mdns, pair.public().to_peer_id()).into(),
        };
        let tcp = tcp::Config::default().nodelay(true);
        let builder = SwarmBuilder::with_existing_identity(pair).with_tokio();
        let builder = builder.with_tcp(tcp, noise::Config::new, yamux);
        let builder =
            builder.map_err(|error| questions::ListenError::Transport(error.to_string()))?;
        let builder = builder.with_behaviour(|_| behaviour);
        let Ok(builder) = builder;
        let swarm = builder
            .with_swarm_config(|config| config.with_idle_connection_timeout(IDLE))
            .with_connection_timeout(CONNECT_TIME)
            .build();
        Ok(Self {
            swarm,
            channels,
            dialing: BTreeMap::new(),
            sent: BTreeMap::new(),
            open: BTreeMap::new(),
            ends: BTreeMap::new(),
            listeners: Vec::new(),
        })
    }

    /// Listens there and nowhere else, and says where: a port of 0 becomes a real one.
    pub(super) async fn listen(
        &mut self,
        wanted: &[SocketAddr],
        mdns: bool,
    ) -> Result<Vec<SocketAddr>, questions::ListenError> {
        self.close_ports();
        // Before it listens: what it tells others are the addresses that it hears of then.
        let me = *self.swarm.local_peer_id();
        self.swarm.behaviour_mut().mdns = discovery(mdns, me).into();
        let listening = self.listen_on_all(wanted).await;
        listening.inspect_err(|_| self.close_ports())
    }

    fn close_ports(&mut self) {
        for listener in std::mem::take(&mut self.listeners) {
            self.swarm.remove_listener(listener);
        }
    }

    async fn listen_on_all(
        &mut self,
        wanted: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, questions::ListenError> {
        let mut listening = Vec::new();
        for address in wanted {
            match self.listen_on(*address).await {
                Ok(found) => listening.extend(found),
                Err(error) if is_any_ipv6(address) && wanted.len() > 1 => {
                    tracing::warn!(%error, "no IPv6 on this host");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(listening)
    }

    async fn listen_on(
        &mut self,
        address: SocketAddr,
    ) -> Result<Option<SocketAddr>, questions::ListenError> {
        let failed = |reason: String| questions::ListenError::Listen { address, reason };
        let listener = self.swarm.listen_on(multiaddr(address));
        let listener = listener.map_err(|error| failed(error.to_string()))?;
        self.listeners.push(listener);
        // Its first address, or nothing: a host may have no address of that family.
        let first = async {
            loop {
                match self.swarm.select_next_some().await {
                    SwarmEvent::NewListenAddr {
                        listener_id,
                        address,
                    } if listener_id == listener => return Ok(socket(&address)),
                    SwarmEvent::ListenerClosed {
                        listener_id,
                        reason: Err(error),
                        ..
                    } if listener_id == listener => return Err(failed(error.to_string())),
                    other => self.event(other),
                }
            }
        };
        let first = tokio::time::timeout(Duration::from_secs(1), first).await;
        first.unwrap_or(Ok(None))
    }

    /// Works till nobody is there to ask any more.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<EndpointCommand>) {
        let mut sweep = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.order(order).await,
                    None => return,
                },
                event = self.swarm.select_next_some() => self.event(event),
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    fn sweep(&mut self) {
        for overdue in self.swarm.behaviour().connection_limits.overdue() {
            count(&self.channels.counters.join_limited);
            self.swarm.close_connection(overdue);
        }
    }

    fn letters(&mut self, protocol: QuestionProtocol) -> &mut Exchanges {
        let behaviour = self.swarm.behaviour_mut();
        match protocol {
            QuestionProtocol::Join => &mut behaviour.join,
            QuestionProtocol::Echo => &mut behaviour.echo.inner,
        }
    }

    async fn order(&mut self, order: EndpointCommand) {
        match order {
            EndpointCommand::Ask(ask) => self.ask(ask),
            EndpointCommand::Listen {
                addresses,
                mdns,
                reply,
            } => {
                let listening = self.listen(&addresses, mdns).await;
                // Who went away needs no answer.
                let _ = reply.send(listening);
            }
            EndpointCommand::Answer {
                protocol,
                channel,
                bytes,
            } => {
                let sent = self.letters(protocol).send_response(channel, bytes);
                if sent.is_ok() {
                    count(&self.channels.counters.join_answered);
                }
            }
        }
    }

    /// Asks over the connection there is, or makes one.
    fn ask(&mut self, ask: OutgoingQuestion) {
        let key = ask.to.key.and_then(|key| keys::peer_id(&key));
        match self.open.get(&ask.to.address) {
            Some((_, peer)) if key.is_none_or(|key| key == *peer) => {
                let peer = *peer;
                self.send(peer, ask);
            }
            _ => self.dial(key, ask),
        }
    }

    fn dial(&mut self, key: Option<PeerId>, ask: OutgoingQuestion) {
        let address = multiaddr(ask.to.address);
        let dial = match key {
            Some(peer) => DialOpts::peer_id(peer)
                .condition(libp2p::swarm::dial_opts::PeerCondition::Always)
                .addresses(vec![address])
                .allocate_new_port()
                .build(),
            None => DialOpts::unknown_peer_id()
                .address(address)
                .allocate_new_port()
                .build(),
        };
        let id = dial.connection_id();
        match self.swarm.dial(dial) {
            Ok(()) => {
                self.dialing.insert(id, ask);
            }
            Err(error) => unreachable_peer(ask, &error),
        }
    }

    fn send(&mut self, peer: PeerId, ask: OutgoingQuestion) {
        let request = self.letters(ask.protocol).send_request(&peer, ask.bytes);
        let sent = SentQuestion {
            address: ask.to.address,
            reply: ask.reply,
        };
        self.sent.insert((ask.protocol, request), sent);
    }

    fn event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Join(event)) => {
                self.letter(QuestionProtocol::Join, event);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Echo(event)) => {
                self.letter(QuestionProtocol::Echo, event);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Mdns(event)) => self.channels.found.hear(event),
            SwarmEvent::ConnectionEstablished {
                connection_id,
                peer_id,
                endpoint,
                ..
            } => self.connected(connection_id, peer_id, &endpoint),
            SwarmEvent::OutgoingConnectionError {
                connection_id,
                error,
                ..
            } => {
                if let Some(ask) = self.dialing.remove(&connection_id) {
                    unreachable_peer(ask, &error);
                }
            }
            SwarmEvent::ConnectionClosed { connection_id, .. } => {
                self.ends.remove(&connection_id);
                self.open.retain(|_, (id, _)| *id != connection_id);
            }
            _ => {}
        }
    }

    fn connected(&mut self, id: ConnectionId, peer: PeerId, endpoint: &ConnectedPoint) {
        let end = match endpoint {
            ConnectedPoint::Listener { send_back_addr, .. } => send_back_addr,
            ConnectedPoint::Dialer { address, .. } => address,
        };
        self.ends.extend(socket(end).map(|end| (id, end)));
        if let Some(ask) = self.dialing.remove(&id) {
            self.open.insert(ask.to.address, (id, peer));
            self.send(peer, ask);
        }
    }

    fn letter(&mut self, protocol: QuestionProtocol, event: ExchangeEvent) {
        match event {
            Event::Message {
                peer,
                connection_id,
                message,
            } => match message {
                Message::Request {
                    request, channel, ..
                } => {
                    // It may come over a connection that this node made.
                    let address = self.ends.get(&connection_id).copied();
                    self.asked(protocol, (peer, address), request, channel);
                }
                Message::Response {
                    request_id,
                    response,
                } => {
                    let sent = self.sent.remove(&(protocol, request_id));
                    if let (Some(sent), Some(key)) = (sent, keys::node_key(&peer)) {
                        let _ = sent.reply.send(Ok((key, response)));
                    }
                }
            },
            Event::OutboundFailure {
                connection_id,
                request_id,
                error,
                ..
            } => self.failed(protocol, connection_id, request_id, &error),
            Event::InboundFailure { .. } | Event::ResponseSent { .. } => {}
        }
    }

    fn asked(
        &mut self,
        protocol: QuestionProtocol,
        (peer, address): (PeerId, Option<SocketAddr>),
        bytes: Vec<u8>,
        channel: libp2p::request_response::ResponseChannel<Vec<u8>>,
    ) {
        let members_only = protocol == QuestionProtocol::Echo;
        if members_only && !self.swarm.behaviour().connection_limits.is_member(&peer) {
            return count(&self.channels.counters.join_refused);
        }
        let answers = self.channels.answers.upgrade();
        let (Some(from), Some(address), Some(commands)) = (keys::node_key(&peer), address, answers)
        else {
            return count(&self.channels.counters.join_refused);
        };
        let responder = QuestionResponder {
            protocol,
            channel,
            commands,
        };
        let inbound = Inbound {
            protocol,
            from,
            address,
            bytes,
            responder,
        };
        if self.channels.inbound.try_send(inbound).is_err() {
            count(&self.channels.counters.join_dropped);
        }
    }

    fn failed(
        &mut self,
        protocol: QuestionProtocol,
        connection: ConnectionId,
        request: OutboundRequestId,
        error: &OutboundFailure,
    ) {
        let Some(SentQuestion { address, reply }) = self.sent.remove(&(protocol, request)) else {
            return;
        };
        let error = match error {
            OutboundFailure::UnsupportedProtocols => {
                // What it thinks of this node it thinks once for a connection: the next is new.
                self.swarm.close_connection(connection);
                self.open.remove(&address);
                AskError::Unwelcome(address)
            }
            error => AskError::NoAnswer {
                address,
                reason: error.to_string(),
            },
        };
        let _ = reply.send(Err(error));
    }
}

fn unreachable_peer(ask: OutgoingQuestion, error: &DialError) {
    let _ = ask.reply.send(Err(undialed(ask.to.address, error)));
}

/// Why there is no connection.
fn undialed(address: SocketAddr, error: &DialError) -> AskError {
    let text = match error {
        DialError::WrongPeerId { .. } => return AskError::OtherNode(address),
        DialError::Transport(failures) => failures.last().map(|(_, error)| deepest(error)),
        error => {
            let reason = error.to_string();
            return AskError::Unreachable { address, reason };
        }
    };
    let text = text.unwrap_or_else(|| error.to_string());
    match system_error(&text) {
        Some(error) if is_nobody(&error) => AskError::Unreachable {
            address,
            reason: error.to_string(),
        },
        Some(error) => AskError::Busy {
            address,
            reason: error.to_string(),
        },
        None => AskError::Busy {
            address,
            reason: text,
        },
    }
}

/// What is at the bottom of an error: transports wrap it several times.
fn deepest(error: &(dyn Error + 'static)) -> String {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    let wrapped = wrapped.map(|inner| inner as &(dyn Error + 'static));
    let inner = wrapped.or_else(|| error.source());
    inner.map_or_else(|| error.to_string(), deepest)
}

/// The system's own error. Transports hide it in types that cannot be named; its number is in
/// the text.
fn system_error(text: &str) -> Option<io::Error> {
    let (_, number) = text.rsplit_once("(os error ")?;
    let (number, _) = number.split_once(')')?;
    Some(io::Error::from_raw_os_error(number.parse().ok()?))
}

/// Whether the system says that nobody listens there, or that there is no way.
fn is_nobody(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    let no_such_network = error.raw_os_error() == Some(nix::libc::EAFNOSUPPORT);
    no_such_network
        || matches!(
            error.kind(),
            Kind::ConnectionRefused
                | Kind::HostUnreachable
                | Kind::NetworkUnreachable
                | Kind::NetworkDown
                | Kind::AddrNotAvailable
                | Kind::PermissionDenied
        )
}
