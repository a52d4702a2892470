//! Connections that others make.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quinn::{Connection, Incoming};
use tokio::time::timeout;

use super::config::HANDSHAKE_TIME;
use super::event::ConnectionRefusal;
use super::gate::{Gate, GateDecision};
use super::hold;
use super::peer::{PeerLink, canonical};
use super::shared::{BusyCounter, EndpointShared, close};
use super::tls;
use crate::net::counters::count;

/// Takes connections till the endpoint is closed.
pub(super) async fn run(shared: Arc<EndpointShared>) {
    let mut gate = Gate::new(shared.config.address_rate);
    while let Some(incoming) = shared.endpoint.accept().await {
        open(&shared, &mut gate, incoming);
    }
}

/// Silence costs nothing and shows nobody that there is something; who is honest tries again.
fn open(shared: &Arc<EndpointShared>, gate: &mut Gate, incoming: Incoming) {
    let from = canonical(incoming.remote_address()).ip();
    let handshakes = shared.handshakes.load(Ordering::Relaxed);
    let proven = incoming.remote_address_validated() || !incoming.may_retry();
    match gate.judge(shared.clock.now(), from, handshakes, proven) {
        GateDecision::Open => {
            let busy = BusyCounter::handshake(shared);
            tokio::spawn(receive(Arc::clone(shared), incoming, busy));
        }
        GateDecision::Prove => {
            count(&shared.counters.retry_asked);
            if let Err(error) = incoming.retry() {
                error.into_incoming().ignore();
            }
        }
        GateDecision::AddressLimit => {
            count(&shared.counters.address_limited);
            incoming.ignore();
        }
        GateDecision::Full => {
            count(&shared.counters.handshakes_limited);
            incoming.ignore();
        }
    }
}

async fn receive(shared: Arc<EndpointShared>, incoming: Incoming, busy: BusyCounter) {
    let Some(connection) = shake(incoming).await else {
        return count(&shared.counters.handshake_failed);
    };
    drop(busy);
    let Some(key) = tls::key_of(&connection).filter(|key| *key != shared.me) else {
        count(&shared.counters.handshake_failed);
        return close(&connection, ConnectionRefusal::Stranger);
    };
    count(&shared.counters.accepted);
    match shared.member(&key) {
        Some(peer) => shared.take_up(&peer, PeerLink::new(connection, false), false),
        None => hold::hold(shared, connection, key).await,
    }
}

async fn shake(incoming: Incoming) -> Option<Connection> {
    let connecting = incoming.accept().ok()?;
    timeout(HANDSHAKE_TIME, connecting).await.ok()?.ok()
}
