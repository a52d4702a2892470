//! A behaviour for members alone: to others the protocol does not exist.

use std::collections::BTreeSet;
use std::task::{Context, Poll};

use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::derive_prelude::Either;
use libp2p::swarm::{
    ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
    THandlerOutEvent, ToSwarm, dummy,
};
use libp2p::{Multiaddr, PeerId};

use super::connection_limits::AdmittedPeers;

/// Lets `inner` see the connections of members, and those that this node made itself.
#[derive(Debug)]
pub(super) struct MembersOnly<B> {
    pub(super) inner: B,
    members: AdmittedPeers,
    seen: BTreeSet<ConnectionId>,
}

impl<B> MembersOnly<B> {
    pub(super) const fn new(inner: B, members: AdmittedPeers) -> Self {
        Self {
            inner,
            members,
            seen: BTreeSet::new(),
        }
    }
}

impl<B: NetworkBehaviour> NetworkBehaviour for MembersOnly<B> {
    type ConnectionHandler = Either<THandler<B>, dummy::ConnectionHandler>;
    type ToSwarm = B::ToSwarm;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        from: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        if !self.members.has(&peer) {
            return Ok(Either::Right(dummy::ConnectionHandler));
        }
        let inner = &mut self.inner;
        let handler = inner.handle_established_inbound_connection(id, peer, local, from)?;
        self.seen.insert(id);
        Ok(Either::Left(handler))
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        to: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let inner = &mut self.inner;
        let handler = inner.handle_established_outbound_connection(id, peer, to, role, port)?;
        self.seen.insert(id);
        Ok(Either::Left(handler))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        let known = match event {
            FromSwarm::ConnectionEstablished(new) => self.seen.contains(&new.connection_id),
            FromSwarm::AddressChange(change) => self.seen.contains(&change.connection_id),
            FromSwarm::ConnectionClosed(closed) => self.seen.remove(&closed.connection_id),
            FromSwarm::ListenFailure(failure) => {
                self.seen.remove(&failure.connection_id);
                true
            }
            FromSwarm::DialFailure(failure) => {
                self.seen.remove(&failure.connection_id);
                true
            }
            _ => true,
        };
        if known {
            self.inner.on_swarm_event(event);
        }
    }

    fn on_connection_handler_event(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        event: THandlerOutEvent<Self>,
    ) {
        match event {
            Either::Left(event) => self.inner.on_connection_handler_event(peer, id, event),
            Either::Right(never) => match never {},
        }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        let event = self.inner.poll(context);
        event.map(|event| event.map_in(Either::Left))
    }
}
