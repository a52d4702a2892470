//! The other members as the doctor asks them: over a connection made for it, and back. That tries TCP,
//! by which machines join; UDP is in use all the time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use muster_gossip::member::MemberId;
use muster_gossip::net::join::{Protocol, Questions, To};
use serde::{Deserialize, Serialize};

use super::member::Member;
use super::service::Service;
use crate::clock;
use crate::doctor::{Contact, Peers, Report};

/// A member that needs longer is as good as gone.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Members asked at the same time.
const AT_ONCE: usize = 32;
/// Packets of this size have to pass.
const PACKET_BYTES: u16 = 1_400;
/// Without a link that was used for a while its path is not measured yet.
const UNMEASURED_BYTES: u16 = 1_200;

/// The members of the cluster that this node is in.
#[derive(Clone, Debug)]
pub(crate) struct MeshPeers(pub(crate) Arc<Service>);

/// Somebody to ask.
#[derive(Clone, Debug)]
struct Peer {
    id: MemberId,
    name: String,
    to: Vec<To>,
}

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

    async fn examine(&self) -> Vec<Report> {
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

async fn peers(member: &Member) -> Vec<Peer> {
    let me = member.me;
    let look = member.mesh.look(move |mesh| {
        let others = mesh.members().filter(|id| *id != me);
        let peer = |id| {
            let member = mesh.member(id)?;
            let key = Some(member.body.key);
            let addresses = member.node.map(|node| node.addresses).unwrap_or_default();
            Some(Peer {
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

async fn examine(member: &Member, peer: &Peer) -> Report {
    let contact = tokio::time::timeout(ANSWER_LIMIT, contact(member, peer)).await;
    Report {
        member: peer.name.clone(),
        contact: contact
            .unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER_LIMIT.as_secs()))),
    }
}

async fn contact(member: &Member, peer: &Peer) -> Result<Contact, String> {
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

/// The question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ask {
    /// Whether to try the way back too.
    back: bool,
}

/// What a member says of the way between it and the one that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Echo {
    /// Its wall clock, ms since the epoch.
    clock_ms: u64,
    /// Whether it reached the one that asked, if it was to try.
    back: Option<Result<(), String>>,
}

/// Whether to try the way back; none if that is no such question.
pub(super) fn asked(bytes: &[u8]) -> Option<bool> {
    let ask: Ask = postcard::from_bytes(bytes).ok()?;
    Some(ask.back)
}

/// The answer as bytes.
pub(super) fn encode(echo: &Echo) -> Vec<u8> {
    // Plain data cannot fail; no bytes are no answer.
    postcard::to_stdvec(echo).unwrap_or_default()
}

async fn echo(questions: &Questions, peer: &Peer, back: bool) -> Result<Echo, String> {
    let bytes = postcard::to_stdvec(&Ask { back }).map_err(|error| error.to_string())?;
    let mut last = "it says no address".to_owned();
    for to in &peer.to {
        match questions.ask(*to, Protocol::Echo, bytes.clone()).await {
            Ok((_, answer)) => match postcard::from_bytes(&answer) {
                Ok(echo) => return Ok(echo),
                Err(_) => {
                    "its answer is not understood; is it of another release?".clone_into(&mut last)
                }
            },
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// What a member answers to an echo: its clock, and whether it reaches whoever asked.
pub(super) async fn answer(questions: &Questions, to: Vec<To>, back: bool) -> Echo {
    let back = if back {
        let peer = Peer {
            id: MemberId(0),
            name: String::new(),
            to,
        };
        let called = tokio::time::timeout(ANSWER_LIMIT / 2, echo_once(questions, &peer)).await;
        Some(called.unwrap_or_else(|_| Err("no answer on the way back".to_owned())))
    } else {
        None
    };
    Echo {
        clock_ms: clock::now().as_millis(),
        back,
    }
}

async fn echo_once(questions: &Questions, peer: &Peer) -> Result<(), String> {
    Box::pin(echo(questions, peer, false)).await.map(|_| ())
}
