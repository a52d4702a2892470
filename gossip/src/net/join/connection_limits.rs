//! Who may connect by TCP: few at a time, fewer from one address, members always.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::multiaddr::Protocol as Part;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandlerInEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

use super::config::{
    PENDING_MAX, PENDING_PER_ADDRESS_MAX, PER_MEMBER_MAX, STRANGER_TIME, STRANGERS_MAX,
    STRANGERS_PER_ADDRESS_MAX,
};
use crate::net::quic::{Gate, subnet};
use crate::net::{MonotonicClock, NetCounters};

/// The members' names; shared with whoever lets only them in.
#[derive(Clone, Debug, Default)]
pub(super) struct AdmittedPeers(Arc<Mutex<BTreeSet<PeerId>>>);

impl AdmittedPeers {
    fn list(&self) -> MutexGuard<'_, BTreeSet<PeerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn replace(&self, list: BTreeSet<PeerId>) {
        *self.list() = list;
    }

    pub(super) fn has(&self, peer: &PeerId) -> bool {
        self.list().contains(peer)
    }
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too many connections")]
struct TooMany;

/// Somebody connected.
#[derive(Clone, Copy, Debug)]
struct Guest {
    peer: PeerId,
    address: Option<IpAddr>,
    since: Instant,
}

/// Counts connections and turns away what is too much.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    members: AdmittedPeers,
    counters: Arc<NetCounters>,
    clock: MonotonicClock,
    gate: Gate,
    pending: BTreeMap<ConnectionId, Option<IpAddr>>,
    guests: BTreeMap<ConnectionId, Guest>,
}

/// The host in an address.
pub(super) fn host(address: &Multiaddr) -> Option<IpAddr> {
    address.iter().find_map(|part| match part {
        Part::Ip4(ip) => Some(ip.into()),
        Part::Ip6(ip) => Some(IpAddr::from(ip).to_canonical()),
        _ => None,
    })
}

impl ConnectionLimits {
    pub(super) fn new(members: AdmittedPeers, counters: Arc<NetCounters>, rate: u32) -> Self {
        Self {
            members,
            counters,
            clock: MonotonicClock::default(),
            gate: Gate::new(rate),
            pending: BTreeMap::new(),
            guests: BTreeMap::new(),
        }
    }

    pub(super) fn is_member(&self, peer: &PeerId) -> bool {
        self.members.has(peer)
    }

    /// Strangers that have been here for too long.
    pub(super) fn overdue(&self) -> Vec<ConnectionId> {
        let overdue =
            |guest: &Guest| guest.since.elapsed() > STRANGER_TIME && !self.members.has(&guest.peer);
        let all = self.guests.iter();
        all.filter(|(_, guest)| overdue(guest))
            .map(|(id, _)| *id)
            .collect()
    }

    fn may_connect(&mut self, address: Option<IpAddr>) -> bool {
        let host = address.map(subnet);
        let same = self.pending.values().filter(|other| **other == host);
        let room = self.pending.len() < PENDING_MAX && same.count() < PENDING_PER_ADDRESS_MAX;
        let now = self.clock.now();
        room && address.is_none_or(|address| self.gate.spend(now, address, true))
    }

    fn may_enter(&self, peer: &PeerId, address: Option<IpAddr>) -> bool {
        if self.members.has(peer) {
            let same = self.guests.values().filter(|guest| guest.peer == *peer);
            return same.count() < PER_MEMBER_MAX;
        }
        let strangers = self.guests.values();
        let strangers = strangers.filter(|guest| !self.members.has(&guest.peer));
        let (mut all, mut same) = (0, 0);
        for guest in strangers {
            all += 1;
            same += usize::from(guest.address == address);
        }
        all < STRANGERS_MAX && same < STRANGERS_PER_ADDRESS_MAX
    }

    fn deny(counter: &AtomicU64) -> ConnectionDenied {
        crate::net::counters::count(counter);
        ConnectionDenied::new(TooMany)
    }
}

impl NetworkBehaviour for ConnectionLimits {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = std::convert::Infallible;

    fn handle_pending_inbound_connection(
        &mut self,
        id: ConnectionId,
        _: &Multiaddr,
        from: &Multiaddr,
    ) -> Result<(), ConnectionDenied> {
        let address = host(from);
        if !self.may_connect(address) {
            return Err(Self::deny(&self.counters.join_limited));
        }
        self.pending.insert(id, address.map(subnet));
        Ok(())
    }

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        from: &Multiaddr,
    ) -> Result<dummy::ConnectionHandler, ConnectionDenied> {
        self.pending.remove(&id);
        let address = host(from).map(subnet);
        if !self.may_enter(&peer, address) {
            return Err(Self::deny(&self.counters.join_limited));
        }
        let since = Instant::now();
        self.guests.insert(
            id,
            Guest {
                peer,
                address,
                since,
            },
        );
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<dummy::ConnectionHandler, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        match event {
            FromSwarm::ListenFailure(failure) => {
                self.pending.remove(&failure.connection_id);
                self.guests.remove(&failure.connection_id);
            }
            FromSwarm::ConnectionClosed(closed) => {
                self.guests.remove(&closed.connection_id);
            }
            _ => {}
        }
    }

    fn on_connection_handler_event(
        &mut self,
        _: PeerId,
        _: ConnectionId,
        event: std::convert::Infallible,
    ) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}
