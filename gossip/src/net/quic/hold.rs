//! Strangers that wait for the mesh to judge their hello: few, and not for long.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quinn::Connection;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::config::{HANDSHAKE_TIME, HELD_MAX, HELD_PER_ADDRESS_MAX, LINGER};
use super::event::{ConnectionRefusal, NetEvent};
use super::gate::subnet;
use super::hello::{self, HELLO_BYTES_MAX};
use super::peer::{PeerLink, canonical};
use super::shared::{EndpointShared, close};
use crate::key::NodeKey;
use crate::net::counters::count;

/// Who waits, by key. The newest connection of a key takes the place of the one before.
#[derive(Debug, Default)]
pub(super) struct HeldConnections(Mutex<BTreeMap<NodeKey, HeldConnection>>);

#[derive(Debug)]
struct HeldConnection {
    address: IpAddr,
    verdict: oneshot::Sender<HelloVerdict>,
    turn: usize,
}

/// What the mesh made of a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HelloVerdict {
    Admitted,
    Refused(ConnectionRefusal),
    /// Its membership is over: this frame tells it so.
    Over(Bytes),
}

impl HeldConnections {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<NodeKey, HeldConnection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, if there is one. `turn` tells connections of one key apart.
    fn enter(
        &self,
        key: NodeKey,
        address: IpAddr,
        turn: usize,
    ) -> Option<oneshot::Receiver<HelloVerdict>> {
        let address = subnet(address);
        let mut waiting = self.waiting();
        let same = |other: &&HeldConnection| other.address == address;
        if waiting.len() >= HELD_MAX
            || waiting.values().filter(same).count() >= HELD_PER_ADDRESS_MAX
        {
            return None;
        }
        let (verdict, receiver) = oneshot::channel();
        let place = HeldConnection {
            address,
            verdict,
            turn,
        };
        if let Some(before) = waiting.insert(key, place) {
            let _ = before
                .verdict
                .send(HelloVerdict::Refused(ConnectionRefusal::Duplicate));
        }
        Some(receiver)
    }

    fn leave(&self, key: &NodeKey, turn: usize) {
        let mut waiting = self.waiting();
        if waiting.get(key).is_some_and(|place| place.turn == turn) {
            waiting.remove(key);
        }
    }

    fn judge(&self, key: &NodeKey, verdict: HelloVerdict) {
        if let Some(place) = self.waiting().remove(key) {
            let _ = place.verdict.send(verdict);
        }
    }

    /// The mesh does not admit it; what it is told may say why.
    pub(super) fn refuse(&self, key: &NodeKey, farewell: Option<Bytes>) {
        let stranger = HelloVerdict::Refused(ConnectionRefusal::Stranger);
        self.judge(key, farewell.map_or(stranger, HelloVerdict::Over));
    }

    /// Lets in whoever is a member now.
    pub(super) fn admit(&self, is_member: impl Fn(&NodeKey) -> bool) {
        let keys: Vec<NodeKey> = self.waiting().keys().copied().collect();
        for key in keys.iter().filter(|key| is_member(key)) {
            self.judge(key, HelloVerdict::Admitted);
        }
    }
}

/// Holds a connection of somebody who is no member here until the mesh has judged its hello.
pub(super) async fn hold(shared: Arc<EndpointShared>, connection: Connection, key: NodeKey) {
    let (address, turn) = (
        canonical(connection.remote_address()),
        connection.stable_id(),
    );
    let Some(verdict) = shared.held.enter(key, address.ip(), turn) else {
        count(&shared.counters.strangers_limited);
        return close(&connection, ConnectionRefusal::Busy);
    };
    let judged = judged(&shared, &connection, key, verdict);
    let judged = timeout(HANDSHAKE_TIME, judged).await;
    shared.held.leave(&key, turn);
    match judged.unwrap_or(HelloVerdict::Refused(ConnectionRefusal::Late)) {
        HelloVerdict::Admitted => match shared.member(&key) {
            Some(peer) => shared.take_up(&peer, PeerLink::new(connection, false), true),
            None => refuse(&shared, &connection, key, ConnectionRefusal::Removed),
        },
        HelloVerdict::Refused(why) => refuse(&shared, &connection, key, why),
        HelloVerdict::Over(farewell) => {
            // Told or not, it is out.
            let _ = timeout(LINGER, tell(&connection, &farewell)).await;
            refuse(&shared, &connection, key, ConnectionRefusal::Removed);
        }
    }
}

/// Sends a frame and waits till it has arrived.
async fn tell(connection: &Connection, frame: &[u8]) -> Result<(), quinn::WriteError> {
    let mut stream = connection.open_uni().await?;
    stream.write_all(frame).await?;
    let _ = stream.finish();
    let _ = stream.stopped().await;
    Ok(())
}

fn refuse(shared: &EndpointShared, connection: &Connection, key: NodeKey, why: ConnectionRefusal) {
    let counter = match why {
        ConnectionRefusal::Malformed | ConnectionRefusal::OtherCluster => {
            &shared.counters.bad_hello
        }
        _ => &shared.counters.strangers_refused,
    };
    count(counter);
    shared.tell_refused(key, canonical(connection.remote_address()), why);
    close(connection, why);
}

async fn judged(
    shared: &EndpointShared,
    connection: &Connection,
    key: NodeKey,
    verdict: oneshot::Receiver<HelloVerdict>,
) -> HelloVerdict {
    let record = match read_hello(shared, connection).await {
        Ok(record) => record,
        Err(why) => return HelloVerdict::Refused(why),
    };
    let Some(ticket) = shared.stranger_ticket() else {
        return HelloVerdict::Refused(ConnectionRefusal::Busy);
    };
    let hello = NetEvent::Hello {
        key,
        address: canonical(connection.remote_address()),
        record,
        ticket,
    };
    if shared.events.try_send(hello).is_err() {
        return HelloVerdict::Refused(ConnectionRefusal::Busy);
    }
    let gone = HelloVerdict::Refused(ConnectionRefusal::Late);
    tokio::select! {
        verdict = verdict => verdict.unwrap_or(gone),
        _ = connection.closed() => gone,
    }
}

async fn read_hello(
    shared: &EndpointShared,
    connection: &Connection,
) -> Result<Bytes, ConnectionRefusal> {
    let mut stream = connection
        .accept_uni()
        .await
        .map_err(|_| ConnectionRefusal::Late)?;
    let bytes = stream.read_to_end(HELLO_BYTES_MAX).await;
    hello::decode(
        shared.config.cluster,
        bytes.map_err(|_| ConnectionRefusal::Malformed)?.into(),
    )
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn key(n: u8) -> NodeKey {
        NodeKey([n; 32])
    }

    fn address(n: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, n))
    }

    #[test]
    fn few_wait_and_fewer_from_one_address() {
        let held = HeldConnections::default();
        let entered = |from| {
            (0..200)
                .filter(|n| held.enter(key(*n), from, 1).is_some())
                .count()
        };
        assert_eq!(entered(address(1)), HELD_PER_ADDRESS_MAX);
        let held = HeldConnections::default();
        let all = (0..200).filter(|n| held.enter(key(*n), address(*n), 1).is_some());
        assert_eq!(all.count(), HELD_MAX);
    }

    #[test]
    fn the_newest_connection_of_a_key_takes_the_place() {
        let held = HeldConnections::default();
        let mut first = held.enter(key(1), address(1), 1).unwrap();
        let mut second = held.enter(key(1), address(1), 2).unwrap();
        assert_eq!(
            first.try_recv(),
            Ok(HelloVerdict::Refused(ConnectionRefusal::Duplicate))
        );
        held.leave(&key(1), 1);
        held.admit(|_| true);
        assert_eq!(second.try_recv(), Ok(HelloVerdict::Admitted));
    }
}
