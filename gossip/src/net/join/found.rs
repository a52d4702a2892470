//! Nodes that multicast found in the local network.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libp2p::multiaddr::Protocol as Part;
use libp2p::{Multiaddr, mdns};

use super::connection_limits::host;
use crate::key::NodeKey;
use crate::net::keys;

/// Nodes remembered.
const FOUND_MAX: usize = 256;

/// Who is there, by address; shared with whoever asks.
#[derive(Clone, Debug, Default)]
pub(super) struct DiscoveredPeers(Arc<Mutex<BTreeMap<SocketAddr, NodeKey>>>);

/// The TCP socket in an address.
pub(super) fn socket(address: &Multiaddr) -> Option<SocketAddr> {
    let port = address.iter().find_map(|part| match part {
        Part::Tcp(port) => Some(port),
        _ => None,
    });
    Some(SocketAddr::new(host(address)?, port?))
}

impl DiscoveredPeers {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, NodeKey>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self) -> Vec<(SocketAddr, NodeKey)> {
        let nodes = self.nodes();
        nodes
            .iter()
            .map(|(address, key)| (*address, *key))
            .collect()
    }

    pub(super) fn hear(&self, event: mdns::Event) {
        let mut nodes = self.nodes();
        match event {
            mdns::Event::Discovered(found) => {
                for (peer, address) in found {
                    let room = nodes.len() < FOUND_MAX;
                    if let (true, Some(key), Some(address)) =
                        (room, keys::node_key(&peer), socket(&address))
                    {
                        nodes.insert(address, key);
                    }
                }
            }
            mdns::Event::Expired(gone) => {
                let gone = gone.iter().filter_map(|(_, address)| socket(address));
                gone.for_each(|address| {
                    nodes.remove(&address);
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Sign as _;
    use crate::net::keys::Ed25519Signer;

    #[test]
    fn nodes_come_and_go_within_a_bound() {
        let found = DiscoveredPeers::default();
        let signer = Ed25519Signer::generate();
        let peer = keys::peer_id(&signer.key()).unwrap();
        let address = |n: u16| -> Multiaddr { format!("/ip4/10.0.0.1/tcp/{n}").parse().unwrap() };
        let all = (1..1_000).map(|n| (peer, address(n))).collect();
        found.hear(mdns::Event::Discovered(all));
        assert_eq!(found.list().len(), FOUND_MAX);
        assert_eq!(
            found.list()[0],
            ("10.0.0.1:1".parse().unwrap(), signer.key())
        );
        found.hear(mdns::Event::Expired(vec![(peer, address(1))]));
        assert_eq!(found.list().len(), FOUND_MAX - 1);
    }
}
