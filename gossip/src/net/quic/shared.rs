//! What all tasks of one endpoint share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quinn::VarInt;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::config::{ANSWER_TIME, LINGER, QuicConfig};
use super::event::{ConnectionRefusal, NetEvent, QueueSlot};
use super::hold::HeldConnections;
use super::link;
use super::peer::{LinkAdoption, PeerLink, QuicPeer};
use super::request::IncomingRequest;
use super::stream::IncomingStream;
use super::table::PeerTable;
use crate::key::NodeKey;
use crate::net::counters::count;
use crate::net::{MonotonicClock, NetCounters};

/// What all tasks of one endpoint share. No lock is held across a wait, nor two at a time but the
/// table before a peer.
#[derive(Debug)]
pub(super) struct EndpointShared {
    pub(super) config: QuicConfig,
    pub(super) endpoint: quinn::Endpoint,
    pub(super) client: quinn::ClientConfig,
    pub(super) me: NodeKey,
    pub(super) clock: MonotonicClock,
    pub(super) counters: Arc<NetCounters>,
    pub(super) events: mpsc::Sender<NetEvent>,
    /// Who answers requests, once somebody does.
    pub(super) requests: Mutex<Option<mpsc::Sender<IncomingRequest>>>,
    /// Takes incoming streams; none until [`NetHandle::streams`](super::NetHandle::streams) was called.
    pub(super) streams: Mutex<Option<mpsc::Sender<IncomingStream>>>,
    /// Bounds what strangers may have waiting for the mesh.
    pub(super) stranger_events: Arc<Semaphore>,
    /// Whether the port is open: nothing is sent, and no member dialed, while it is not.
    pub(super) port: watch::Sender<bool>,
    /// Bounds dials at the same time.
    pub(super) dials: Semaphore,
    /// Handshakes with others that dialed.
    pub(super) handshakes: AtomicUsize,
    pub(super) held: HeldConnections,
    pub(super) hello: Mutex<Bytes>,
    pub(super) table: Mutex<PeerTable>,
}

impl EndpointShared {
    pub(super) fn table(&self) -> MutexGuard<'_, PeerTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn requests(&self) -> MutexGuard<'_, Option<mpsc::Sender<IncomingRequest>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, Option<mpsc::Sender<IncomingStream>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the port is open.
    pub(super) async fn port_open(&self) {
        let mut port = self.port.subscribe();
        // The sender lives as long as this.
        let _ = port.wait_for(|open| *open).await;
    }

    /// The member that has this key.
    pub(super) fn member(&self, key: &NodeKey) -> Option<Arc<QuicPeer>> {
        self.table().of_key(key).cloned()
    }

    pub(super) fn hello(&self) -> Bytes {
        let hello = self.hello.lock().unwrap_or_else(PoisonError::into_inner);
        hello.clone()
    }

    /// Makes a connection the peer's link and starts to serve it. `greeted`: its hello was read.
    pub(super) fn take_up(self: &Arc<Self>, peer: &Arc<QuicPeer>, new: PeerLink, greeted: bool) {
        let (connection, address) = (new.connection.clone(), new.address());
        let underway = new.underway.clone();
        let lost = match peer.adopt(&self.me, new) {
            LinkAdoption::Taken(old) => {
                self.tell(NetEvent::Connected {
                    member: peer.id,
                    address,
                });
                old
            }
            LinkAdoption::Late(new) => Some(new),
            LinkAdoption::Removed(new) => {
                return close(&new.connection, ConnectionRefusal::Removed);
            }
        };
        tokio::spawn(link::serve(
            Arc::clone(self),
            Arc::clone(peer),
            (connection, underway),
            greeted,
        ));
        if let Some(lost) = lost {
            count(&self.counters.duplicate_link);
            tokio::spawn(give_up(lost));
        }
    }

    /// Tells the mesh what it would like to know but can do without.
    pub(super) fn tell(&self, event: NetEvent) {
        // A full queue: the mesh has worse to do, and asks for the links when it wants to know.
        let _ = self.events.try_send(event);
    }

    /// Tells the mesh that a connection was refused, unless it has enough such news already.
    pub(super) fn tell_refused(
        &self,
        key: NodeKey,
        address: SocketAddr,
        reason: ConnectionRefusal,
    ) {
        if let Some(ticket) = self.stranger_ticket() {
            self.tell(NetEvent::Refused {
                key,
                address,
                reason,
                ticket,
            });
        }
    }

    pub(super) fn stranger_ticket(&self) -> Option<QueueSlot> {
        let permit = Arc::clone(&self.stranger_events).try_acquire_owned();
        permit.ok().map(QueueSlot)
    }
}

/// Closes a connection with a code that says why.
pub(super) fn close(connection: &quinn::Connection, why: ConnectionRefusal) {
    connection.close(VarInt::from_u32(why.code()), why.text().as_bytes());
}

/// Closes a connection that another one replaced, once what is on its way had time to arrive and
/// requests have their answers and streams have ended.
async fn give_up(link: PeerLink) {
    let until = Instant::now() + ANSWER_TIME;
    tokio::time::sleep(LINGER).await;
    while link.underway.has_streams() || link.underway.is_any() && Instant::now() < until {
        if link.connection.close_reason().is_some() {
            return;
        }
        tokio::time::sleep(LINGER).await;
    }
    close(&link.connection, ConnectionRefusal::Duplicate);
}

/// Counts something while it lasts.
#[derive(Debug)]
pub(super) struct BusyCounter(Arc<EndpointShared>);

impl BusyCounter {
    pub(super) fn handshake(shared: &Arc<EndpointShared>) -> Self {
        shared.handshakes.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for BusyCounter {
    fn drop(&mut self) {
        self.0.handshakes.fetch_sub(1, Ordering::Relaxed);
    }
}
