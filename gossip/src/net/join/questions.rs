//! Asking, and being asked.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use libp2p::request_response::ResponseChannel;
use tokio::sync::{mpsc, oneshot};

use super::config::{COMMANDS_MAX, INBOUND_MAX, JoinNetConfig};
use super::connection_limits::AdmittedPeers;
use super::endpoint::{self, JoinEndpoint};
use super::found::DiscoveredPeers;
use super::protocol::QuestionProtocol;
use crate::key::NodeKey;
use crate::net::NetCounters;
use crate::net::keys::{self, Ed25519Signer};

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The task that listens has ended.
    #[error("the agent ends")]
    Closed,
    /// A port cannot be had.
    #[error("cannot listen on TCP {address}: {reason}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The transport cannot be made of the node key.
    #[error("cannot make the node's TCP transport: {0}")]
    Transport(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody answers there.
    #[error("cannot reach {address}: {reason}")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// No answer in time: somebody is there but too busy or has too many connections, packets are
    /// lost on the way, or the machine is off.
    #[error("{address} cannot be reached at the moment, or lets nobody in: {reason}")]
    Busy {
        /// Where.
        address: SocketAddr,
        /// What happened.
        reason: String,
    },
    /// Another node answers there.
    #[error("another node than the one looked for answers at {0}")]
    OtherNode(SocketAddr),
    /// It does not speak of such things with this node: not a member, it says, or too old.
    #[error("{0} does not take such questions of this node")]
    Unwelcome(SocketAddr),
    /// It did not answer: it is too busy, or takes the question for none.
    #[error("{address} gave no answer: {reason}")]
    NoAnswer {
        /// Who.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// The question is too long. Nothing was sent.
    #[error("a question of {bytes} bytes; {most} are the most")]
    TooLong {
        /// Of so many bytes.
        bytes: usize,
        /// So many may be.
        most: usize,
    },
    /// The agent ends.
    #[error("the agent ends")]
    Closed,
}

impl AskError {
    /// Whether the same question may be answered a little later.
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::NoAnswer { .. })
    }
}

/// Whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct To {
    /// Where.
    pub address: SocketAddr,
    /// Whose key it must have; a stranger does not know it before it has connected.
    pub key: Option<NodeKey>,
}

/// Somebody asks.
#[derive(Debug)]
pub struct Inbound {
    /// What about. For [`QuestionProtocol::Echo`] the asker is a member.
    pub protocol: QuestionProtocol,
    /// The key that the connection has proven.
    pub from: NodeKey,
    /// Where it came from.
    pub address: SocketAddr,
    /// The question.
    pub bytes: Vec<u8>,
    /// Answers it; dropped, the asker learns that there is no answer.
    pub responder: QuestionResponder,
}

/// Answers one question.
#[derive(Debug)]
pub struct QuestionResponder {
    pub(super) protocol: QuestionProtocol,
    pub(super) channel: ResponseChannel<Vec<u8>>,
    pub(super) commands: mpsc::Sender<EndpointCommand>,
}

impl QuestionResponder {
    /// Sends the answer, if the asker is still there. An empty one is none.
    pub async fn answer(self, bytes: Vec<u8>) {
        let answer = EndpointCommand::Answer {
            protocol: self.protocol,
            channel: self.channel,
            bytes,
        };
        // A closed endpoint answers nobody.
        let _ = self.commands.send(answer).await;
    }
}

/// What the handle wants of the task.
#[derive(Debug)]
pub(super) enum EndpointCommand {
    Ask(OutgoingQuestion),
    Listen {
        addresses: Vec<SocketAddr>,
        mdns: bool,
        reply: oneshot::Sender<Result<Vec<SocketAddr>, ListenError>>,
    },
    Answer {
        protocol: QuestionProtocol,
        channel: ResponseChannel<Vec<u8>>,
        bytes: Vec<u8>,
    },
}

/// A question on its way.
#[derive(Debug)]
pub(super) struct OutgoingQuestion {
    pub(super) to: To,
    pub(super) protocol: QuestionProtocol,
    pub(super) bytes: Vec<u8>,
    pub(super) reply: QuestionReply,
}

/// Where the answer goes.
pub(super) type QuestionReply = oneshot::Sender<Result<(NodeKey, Vec<u8>), AskError>>;

/// Asks questions. Cheap to clone; when the last one is dropped, the ports are closed.
#[derive(Clone, Debug)]
pub struct Questions {
    commands: mpsc::Sender<EndpointCommand>,
    members: AdmittedPeers,
    found: DiscoveredPeers,
}

/// Asks, and takes questions once [`Questions::listen`] was called. Must be called inside a tokio
/// runtime.
///
/// # Errors
/// [`ListenError`] when the key cannot be used.
pub fn bind(
    config: JoinNetConfig,
    signer: &Ed25519Signer,
    counters: Arc<NetCounters>,
) -> Result<(Questions, mpsc::Receiver<Inbound>), ListenError> {
    let members = AdmittedPeers::default();
    let (inbound, receiver) = mpsc::channel(INBOUND_MAX);
    let (commands, orders) = mpsc::channel(COMMANDS_MAX);
    let channels = endpoint::EndpointChannels {
        counters,
        inbound,
        answers: commands.downgrade(),
        found: DiscoveredPeers::default(),
    };
    let found = channels.found.clone();
    let endpoint = JoinEndpoint::new(&config, signer, members.clone(), channels)?;
    tokio::spawn(endpoint.run(orders));
    let questions = Questions {
        commands,
        members,
        found,
    };
    Ok((questions, receiver))
}

impl Questions {
    /// Listens at these addresses from now on, and at no other; says where: a port of 0 becomes a
    /// real one. `[::]` is left out on a host without IPv6 if there is another address. `mdns`:
    /// whether others in the local network find this node by multicast, and it finds them.
    ///
    /// # Errors
    /// [`ListenError::Listen`] when one cannot be had; then it listens nowhere.
    pub async fn listen(
        &self,
        addresses: Vec<SocketAddr>,
        mdns: bool,
    ) -> Result<Vec<SocketAddr>, ListenError> {
        let (reply, answer) = oneshot::channel();
        let listen = EndpointCommand::Listen {
            addresses,
            mdns,
            reply,
        };
        let sent = self.commands.send(listen).await;
        sent.map_err(|_| ListenError::Closed)?;
        answer.await.map_err(|_| ListenError::Closed)?
    }

    /// Other nodes that multicast found in the local network, of whatever cluster; none where
    /// multicast is off. Nothing is proven of them.
    pub fn found(&self) -> Vec<(SocketAddr, NodeKey)> {
        self.found.list()
    }

    /// The whole list of members: only they may use [`QuestionProtocol::Echo`], from their next
    /// connection on.
    pub fn members(&self, list: impl IntoIterator<Item = NodeKey>) {
        let names: BTreeSet<_> = list
            .into_iter()
            .filter_map(|key| keys::peer_id(&key))
            .collect();
        self.members.replace(names);
    }

    /// Asks, and waits for the answer and the key of whoever gave it. At most 20 seconds pass.
    ///
    /// # Errors
    /// [`AskError`]. Whether the question arrived is not always known then.
    pub async fn ask(
        &self,
        to: To,
        protocol: QuestionProtocol,
        bytes: Vec<u8>,
    ) -> Result<(NodeKey, Vec<u8>), AskError> {
        let most = protocol.request_bytes_max();
        if bytes.len() > most {
            let bytes = bytes.len();
            return Err(AskError::TooLong { bytes, most });
        }
        let (reply, answer) = oneshot::channel();
        let ask = OutgoingQuestion {
            to,
            protocol,
            bytes,
            reply,
        };
        let sent = self.commands.send(EndpointCommand::Ask(ask)).await;
        sent.map_err(|_| AskError::Closed)?;
        answer.await.map_err(|_| AskError::Closed)?
    }
}
