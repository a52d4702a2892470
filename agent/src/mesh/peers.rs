//! The other members as the doctor asks them.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use muster_gossip::net::join::To;

use super::echo::{ANSWER_LIMIT, EchoPeer, echo};
use super::member::ActiveMembership;
use super::service::Service;
use crate::clock;
use crate::doctor::{Contact, ContactReport, Peers};

/// Members asked at the same time.
const AT_ONCE: usize = 32;
/// Packets of this size have to pass.
const PACKET_BYTES: u16 = 1_400;
/// Without a link that was used for a while its path is not measured yet.
const UNMEASURED_BYTES: u16 = 1_200;

/// The members of the cluster that this node is in.
#[derive(Clone, Debug)]
pub(crate) struct MeshPeers(pub(crate) Arc<Service>);

#[async_trait]
impl Peers for MeshPeers {
    async fn count(&self) -> u64 {
        let member = self.0.member();
        let count = member.mesh.look(|mesh| mesh.members().count()).await;
        count.unwrap_or(1) as u64
    }

    async fn port(&self) -> Option<u16> {
        self.0.member().port()
    }

    async fn is_expelled(&self) -> bool {
        self.0.is_expelled().await
    }

    async fn examine(&self) -> Vec<ContactReport> {
        let member = self.0.member();
        let peers = peers(&member).await;
        let mut reports = Vec::new();
        for some in peers.chunks(AT_ONCE) {
            let asked = some.iter().map(|peer| examine(&member, peer));
            reports.extend(futures::future::join_all(asked).await);
        }
        reports
    }
}

async fn peers(member: &ActiveMembership) -> Vec<EchoPeer> {
    let me = member.me;
    let look = member.mesh.look(move |mesh| {
        let others = mesh.members().filter(|id| *id != me);
        let peer = |id| {
            let member = mesh.member(id)?;
            let key = Some(member.body.key);
            let addresses = member.node.map(|node| node.addresses).unwrap_or_default();
            Some(EchoPeer {
                id,
                name: member.body.name.clone(),
                to: addresses
                    .into_iter()
                    .map(|address| To { address, key })
                    .collect(),
            })
        };
        others.filter_map(peer).collect()
    });
    look.await.unwrap_or_default()
}

async fn examine(member: &ActiveMembership, peer: &EchoPeer) -> ContactReport {
    let contact = tokio::time::timeout(ANSWER_LIMIT, contact(member, peer)).await;
    ContactReport {
        member: peer.name.clone(),
        contact: contact
            .unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs()))),
    }
}

async fn contact(member: &ActiveMembership, peer: &EchoPeer) -> Result<Contact, String> {
    // The first question makes the connection and has the other side call back; the second one
    // measures the way.
    let first = echo(member.questions(), peer, true).await?;
    let asked = Instant::now();
    let second = echo(member.questions(), peer, false).await?;
    let rtt = asked.elapsed();
    let link = member
        .net()
        .links()
        .into_iter()
        .find(|link| link.member == peer.id);
    let mtu = link
        .map(|link| link.mtu_bytes)
        .filter(|mtu| *mtu > UNMEASURED_BYTES);
    Ok(Contact {
        rtt_us: u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
        their_clock_ms: second.clock_ms,
        our_clock_ms: clock::now().as_millis(),
        path_mtu: mtu,
        packet_passed: mtu.map(|mtu| mtu >= PACKET_BYTES),
        back: first.back.unwrap_or(Ok(())),
    })
}
