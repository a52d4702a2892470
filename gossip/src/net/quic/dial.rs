//! Connections that this node makes.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use quinn::Connection;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::config::{DIAL_STAGGER, DIAL_TIME, WANTED};
use super::event::ConnectionRefusal;
use super::hello;
use super::peer::{PeerLink, QuicPeer};
use super::shared::{EndpointShared, close};
use super::tls;
use crate::net::counters::count;

/// Dials a peer until there is a link or nobody wants one.
pub(super) async fn run(shared: Arc<EndpointShared>, peer: Arc<QuicPeer>) {
    while peer.state().keep_dialing(Instant::now()) {
        let linked = peer.linked.notified();
        let at = peer.state().dial_at();
        tokio::select! {
            () = linked => {}
            () = attempt(&shared, &peer, at) => {}
        }
    }
}

async fn attempt(shared: &Arc<EndpointShared>, peer: &Arc<QuicPeer>, at: Instant) {
    sleep_until(at).await;
    // What is sent before is lost, and sent again a second later only. Bounded: a port that is closed
    // for good ends the dial.
    if timeout(WANTED, shared.port_open()).await.is_err() {
        return;
    }
    let Ok(_turn) = shared.dials.acquire().await else {
        return;
    };
    match timeout(DIAL_TIME, any(shared, peer)).await.ok().flatten() {
        Some(connection) => {
            count(&shared.counters.dialed);
            shared.take_up(peer, PeerLink::new(connection, true), true);
        }
        None => {
            count(&shared.counters.dial_failed);
            peer.state().dial_failed(Instant::now());
        }
    }
}

/// The first of the peer's addresses that answers with its key; each is tried a little later than
/// the one before.
async fn any(shared: &EndpointShared, peer: &QuicPeer) -> Option<Connection> {
    let addresses = peer.state().dial_addresses();
    let tries = addresses
        .into_iter()
        .zip(0..)
        .map(|(address, n)| async move {
            sleep(DIAL_STAGGER * n).await;
            one(shared, peer, address).await
        });
    let mut tries: FuturesUnordered<_> = tries.collect();
    while let Some(result) = tries.next().await {
        if result.is_some() {
            return result;
        }
    }
    None
}

/// Connects to one address and says hello. Nothing is sent to another key than the peer's.
async fn one(shared: &EndpointShared, peer: &QuicPeer, address: SocketAddr) -> Option<Connection> {
    let connecting = shared
        .endpoint
        .connect_with(shared.client.clone(), address, tls::SERVER_NAME);
    let connection = connecting.ok()?.await.ok()?;
    if tls::key_of(&connection) != Some(peer.key) {
        count(&shared.counters.wrong_key);
        close(&connection, ConnectionRefusal::Stranger);
        return None;
    }
    let mut stream = connection.open_uni().await.ok()?;
    let hello = hello::encode(shared.config.cluster, &shared.hello());
    stream.write_all(&hello).await.ok()?;
    stream.finish().ok()?;
    Some(connection)
}
