//! What the agent holds of its mesh.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::keep::Store;
use super::run::{Driver, Error};
use crate::Mesh;
use crate::documents;
use crate::frame::CARGO_BYTES_MAX;
use crate::key::ClusterId;
use crate::member::MemberId;
use crate::mesh::{Event, Input};
use crate::net::counters::count;
use crate::net::join::Questions;
use crate::net::quic::{NetEvent, NetHandle};
use crate::net::{Clock, NetCounters};

/// Inputs and questions of the agent that wait.
const COMMANDS_MAX: usize = 1_024;
/// Events that a slow listener may be behind before it misses some.
const EVENTS_MAX: usize = 1_024;
/// What has to be done for documents and was not yet taken.
const DOCUMENTS_MAX: usize = 256;
/// Cargo that waits for the mesh, or for the owner.
pub(super) const CARGO_MAX: usize = 512;

/// The mesh's task has ended; the agent ends, or starts it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mesh of this node has ended")]
pub struct Ended;

/// What a mesh is driven with.
#[derive(Debug)]
pub struct Parts<S> {
    /// The core.
    pub mesh: Mesh,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The links.
    pub net: NetHandle,
    /// What they bring.
    pub net_events: mpsc::Receiver<NetEvent>,
    /// The TCP side, to be told who is a member; not every node needs one.
    pub questions: Option<Questions>,
    /// The disk.
    pub store: Arc<S>,
    /// The clock that the links use.
    pub clock: Clock,
}

/// Tells the mesh, and asks it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MeshHandle {
    commands: mpsc::Sender<Command>,
    cargo: mpsc::Sender<Cargo>,
    events: broadcast::Sender<Event>,
    counters: Arc<NetCounters>,
}

type Look = Box<dyn FnOnce(&Mesh) + Send>;

/// The owner's bytes, to or from a member.
pub(super) type Cargo = (MemberId, Arc<[u8]>);

/// The near ends of the driver's channels.
pub(super) struct Ends {
    pub(super) orders: mpsc::Receiver<Command>,
    pub(super) events: broadcast::Sender<Event>,
    pub(super) documents: mpsc::Sender<documents::Output>,
    /// To be sent.
    pub(super) outbound: mpsc::Receiver<Cargo>,
    /// That came in.
    pub(super) inbound: mpsc::Sender<Cargo>,
}

/// A mesh that is driven.
#[derive(Debug)]
pub struct Started {
    /// Tells and asks it. The task ends when every handle is gone.
    pub handle: MeshHandle,
    /// What has to be done for documents: keep, check, put in force. The mesh waits when it is
    /// not taken.
    pub documents: mpsc::Receiver<documents::Output>,
    /// What members sent by [`MeshHandle::carry`], in each one's order. What is not taken in time
    /// is dropped and counted.
    pub cargo: mpsc::Receiver<(MemberId, Arc<[u8]>)>,
    /// The task.
    pub task: JoinHandle<Result<(), Error>>,
}

/// What the agent wants.
pub(super) enum Command {
    /// Take this in.
    Input(Input),
    /// Look at the core.
    Look(Look),
}

/// Starts the task.
pub fn start<S: Store>(parts: Parts<S>) -> Started {
    let (commands, orders) = mpsc::channel(COMMANDS_MAX);
    let (events, _) = broadcast::channel(EVENTS_MAX);
    let (documents_in, documents) = mpsc::channel(DOCUMENTS_MAX);
    let (outgoing, outbound) = mpsc::channel(CARGO_MAX);
    let (inbound, cargo) = mpsc::channel(CARGO_MAX);
    let handle = MeshHandle {
        commands,
        cargo: outgoing,
        events: events.clone(),
        counters: Arc::clone(parts.net.counters()),
    };
    let ends = Ends {
        orders,
        events,
        documents: documents_in,
        outbound,
        inbound,
    };
    let driver = Driver::new(parts, ends);
    driver.list_members();
    Started {
        handle,
        documents,
        cargo,
        task: tokio::spawn(driver.run()),
    }
}

impl MeshHandle {
    /// Gives the core an input: a record of the cluster, the node's health, what it says of
    /// itself, news of a document. [`Input::Frame`] and [`Input::Tick`] are the driver's own.
    ///
    /// # Errors
    /// [`Ended`].
    pub async fn input(&self, input: Input) -> Result<(), Ended> {
        let command = Command::Input(input);
        self.commands.send(command).await.map_err(|_| Ended)
    }

    /// Looks at the core between two inputs. Keep it short: the node answers nobody meanwhile.
    ///
    /// # Errors
    /// [`Ended`].
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Mesh) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let (found, answer) = oneshot::channel();
        let look: Look = Box::new(move |mesh| {
            // Whoever asked may have gone.
            let _ = found.send(look(mesh));
        });
        let sent = self.commands.send(Command::Look(look)).await;
        sent.map_err(|_| Ended)?;
        answer.await.map_err(|_| Ended)
    }

    /// Sends a member bytes that mean something to its owner: at most [`CARGO_BYTES_MAX`]. Never
    /// blocks. Over one link they arrive in the order in which they were given, or not at all:
    /// what cannot be sent is dropped and counted.
    pub fn carry(&self, to: MemberId, bytes: Vec<u8>) {
        if bytes.len() > CARGO_BYTES_MAX {
            return count(&self.counters.oversize_out);
        }
        if self.cargo.try_send((to, bytes.into())).is_err() {
            count(&self.counters.cargo_unsent);
        }
    }

    /// What happens from now on. A listener that is too slow is told how much it missed, and looks
    /// at the core instead.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// What the network refused, dropped and did.
    pub fn counters(&self) -> &NetCounters {
        &self.counters
    }
}
