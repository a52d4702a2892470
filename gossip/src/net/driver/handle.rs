//! What the agent holds of its mesh.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::keep::RecordStore;
use super::run::{Driver, DriverError};
use crate::Mesh;
use crate::documents;
use crate::frame::CARGO_BYTES_MAX;
use crate::key::ClusterId;
use crate::member::MemberId;
use crate::mesh::{MeshEvent, MeshInput};
use crate::net::counters::count;
use crate::net::join::Questions;
use crate::net::quic::{NetEvent, NetHandle};
use crate::net::{MonotonicClock, NetCounters};

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
pub struct DriverParts<S> {
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
    pub clock: MonotonicClock,
}

/// Tells the mesh, and asks it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct MeshHandle {
    commands: mpsc::Sender<DriverCommand>,
    cargo: mpsc::Sender<Cargo>,
    events: broadcast::Sender<MeshEvent>,
    counters: Arc<NetCounters>,
}

type MeshRead = Box<dyn FnOnce(&Mesh) + Send>;

/// The owner's bytes, to or from a member.
pub(super) type Cargo = (MemberId, Arc<[u8]>);

/// The near ends of the driver's channels.
pub(super) struct DriverEnds {
    pub(super) orders: mpsc::Receiver<DriverCommand>,
    pub(super) events: broadcast::Sender<MeshEvent>,
    pub(super) documents: mpsc::Sender<documents::DocumentsOutput>,
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
    pub documents: mpsc::Receiver<documents::DocumentsOutput>,
    /// What members sent by [`MeshHandle::carry`], in each one's order. What is not taken in time
    /// is dropped and counted.
    pub cargo: mpsc::Receiver<(MemberId, Arc<[u8]>)>,
    /// The task.
    pub task: JoinHandle<Result<(), DriverError>>,
}

/// What the agent wants.
pub(super) enum DriverCommand {
    /// Take this in.
    Input(MeshInput),
    /// Look at the core.
    Look(MeshRead),
}

/// Starts the task.
pub fn start<S: RecordStore>(parts: DriverParts<S>) -> Started {
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
    let ends = DriverEnds {
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
    /// itself, news of a document. [`MeshInput::Frame`] and [`MeshInput::Tick`] are the driver's own.
    ///
    /// # Errors
    /// [`Ended`].
    pub async fn input(&self, input: MeshInput) -> Result<(), Ended> {
        let command = DriverCommand::Input(input);
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
        let look: MeshRead = Box::new(move |mesh| {
            // Whoever asked may have gone.
            let _ = found.send(look(mesh));
        });
        let sent = self.commands.send(DriverCommand::Look(look)).await;
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
    pub fn events(&self) -> broadcast::Receiver<MeshEvent> {
        self.events.subscribe()
    }

    /// What the network refused, dropped and did.
    pub fn counters(&self) -> &NetCounters {
        &self.counters
    }
}
