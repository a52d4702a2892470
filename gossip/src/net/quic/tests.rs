//! Real sockets on loopback.

mod ordered;
mod requests;
mod streams;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quinn::VarInt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::config::{HANDSHAKES_MAX, HELD_PER_ADDRESS_MAX, LINK_EVENTS_MAX};
use super::*;
use super::{hello, tls};
use crate::frame::{DATAGRAM_BYTES_MAX, FRAME_BYTES_MAX};
use crate::key::{ClusterId, NodeKey, Sign as _};
use crate::member::MemberId;
use crate::net::keys::Ed25519Signer;
use crate::net::{MonotonicClock, NetCounters};

const CLUSTER: ClusterId = ClusterId([1; 16]);
const PATIENCE: Duration = Duration::from_secs(30);
/// As cores say everything again.
const AGAIN: Duration = Duration::from_millis(20);

struct Node {
    id: MemberId,
    signer: Ed25519Signer,
    net: NetHandle,
    events: mpsc::Receiver<NetEvent>,
}

fn loopback(config: QuicConfig) -> QuicConfig {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    QuicConfig { listen, ..config }
}

impl Node {
    fn start(id: u32) -> Self {
        Self::with(id, Ed25519Signer::generate(), QuicConfig::new(CLUSTER))
    }

    fn with(id: u32, signer: Ed25519Signer, config: QuicConfig) -> Self {
        let (net, events) = bind(loopback(config), &signer, MonotonicClock::default()).unwrap();
        net.hello(Bytes::from(format!("admission of {id}")));
        let id = MemberId(id);
        Self {
            id,
            signer,
            net,
            events,
        }
    }

    fn admitted(&self) -> Admitted {
        Admitted {
            id: self.id,
            key: self.signer.key(),
            addresses: vec![self.net.address().unwrap()],
        }
    }

    fn knows(&self, others: &[&Self]) {
        let list = others.iter().map(|other| other.admitted()).collect();
        self.net.members(list);
    }

    fn say(&self, to: &Self, lane: Lane, words: &'static str) {
        self.net.send(to.id, lane, words.into());
    }

    async fn event<T>(&mut self, mut wanted: impl FnMut(NetEvent) -> Option<T>) -> T {
        let wait = async {
            loop {
                let event = self.events.recv().await.expect("the endpoint lives");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, wait).await.expect("the event comes")
    }

    async fn hears(&mut self, other: MemberId) -> Bytes {
        self.event(|event| match event {
            NetEvent::Frame { from, bytes, .. } if from == other => Some(bytes),
            _ => None,
        })
        .await
    }

    async fn refusal(&mut self) -> (NodeKey, ConnectionRefusal) {
        self.event(|event| match event {
            NetEvent::Refused { key, reason, .. } => Some((key, reason)),
            _ => None,
        })
        .await
    }

    fn count(&self, of: impl Fn(&NetCounters) -> &AtomicU64) -> u64 {
        of(self.net.counters()).load(Ordering::Relaxed)
    }

    /// Waits till a count is reached.
    async fn counted(&self, least: u64, of: impl Fn(&NetCounters) -> &AtomicU64) {
        until(|| self.count(&of) >= least).await;
    }
}

async fn until(mut condition: impl FnMut() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait)
        .await
        .expect("the condition comes true");
}

/// Says it for ever.
fn repeats(from: &Node, to: MemberId, words: &'static str) -> impl Future<Output = ()> + use<> {
    let net = from.net.clone();
    async move {
        loop {
            net.send(to, Lane::Liveness, words.into());
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// `from` says it again and again, as cores do, until `to` hears it.
async fn gets_through(from: &Node, to: &mut Node, words: &'static str) {
    let (saying, sender) = (repeats(from, to.id, words), from.id);
    let hearing = async { while to.hears(sender).await != words.as_bytes() {} };
    tokio::select! {
        () = saying => {}
        () = hearing => {}
    }
}

fn pair() -> (Node, Node) {
    let (one, two) = (Node::start(1), Node::start(2));
    one.knows(&[&two]);
    two.knows(&[&one]);
    (one, two)
}

#[tokio::test]
async fn two_nodes_exchange_frames_on_every_lane() {
    let (mut one, mut two) = pair();
    for (lane, words) in [
        (Lane::Liveness, "probe"),
        (Lane::Datagram, "push"),
        (Lane::Stream, "chunk"),
        (Lane::Ordered, "cargo"),
    ] {
        one.say(&two, lane, words);
        assert_eq!(two.hears(one.id).await, words);
        two.say(&one, lane, words);
        assert_eq!(one.hears(two.id).await, words);
    }
    assert_eq!(one.count(|c| &c.dialed), 1);
    assert_eq!(two.count(|c| &c.dialed), 0);
    assert_eq!(one.net.links().len(), 1);
    one.net.close().await;
    two.event(|event| matches!(event, NetEvent::Disconnected { .. }).then_some(()))
        .await;
}

#[tokio::test]
async fn the_largest_frames_pass_and_larger_ones_are_counted() {
    let (one, mut two) = pair();
    for (lane, most) in [
        (Lane::Liveness, DATAGRAM_BYTES_MAX),
        (Lane::Datagram, DATAGRAM_BYTES_MAX),
        (Lane::Stream, FRAME_BYTES_MAX),
        (Lane::Ordered, FRAME_BYTES_MAX),
    ] {
        one.net.send(two.id, lane, vec![0; most + 1].into());
        one.net.send(two.id, lane, vec![7; most].into());
        assert_eq!(two.hears(one.id).await, vec![7; most]);
    }
    assert_eq!(one.count(|c| &c.oversize_out), 4);
    one.net.send(MemberId(9), Lane::Liveness, Bytes::new());
    assert_eq!(one.count(|c| &c.unknown_member), 1);
}

#[tokio::test]
async fn five_nodes_all_talk_to_all_at_once() {
    let mut nodes: Vec<Node> = (0..5).map(Node::start).collect();
    for node in &nodes {
        let others: Vec<&Node> = nodes.iter().filter(|other| other.id != node.id).collect();
        node.knows(&others);
    }
    // All dial each other at the same moment.
    for node in &nodes {
        let others = nodes.iter().filter(|other| other.id != node.id);
        others.for_each(|other| node.say(other, Lane::Stream, "to you"));
    }
    for node in &mut nodes {
        let mut heard = std::collections::BTreeSet::new();
        while heard.len() < 4 {
            let from = node.event(|event| match event {
                NetEvent::Frame { from, .. } => Some(from),
                _ => None,
            });
            heard.insert(from.await);
        }
    }
    // Of two links between the same nodes one remains, and both ends have the same.
    let settled = || {
        let open: usize = nodes.iter().map(|node| node.net.open_connections()).sum();
        let links: usize = nodes.iter().map(|node| node.net.links().len()).sum();
        open == 20 && links == 20
    };
    until(settled).await;
    for node in &nodes {
        for link in node.net.links() {
            let other = &nodes[link.member.index()].net.links();
            let back = other.iter().find(|back| back.member == node.id).unwrap();
            assert_ne!(back.dialed, link.dialed);
        }
    }
}

#[tokio::test]
async fn a_stranger_is_held_judged_and_refused() {
    let (mut one, mut stranger) = (Node::start(1), Node::start(2));
    stranger.knows(&[&one]);
    stranger.say(&one, Lane::Stream, "let me in");
    let (key, record) = one
        .event(|event| match event {
            NetEvent::Hello { key, record, .. } => Some((key, record)),
            NetEvent::Frame { .. } => panic!("a stranger's frame came through"),
            _ => None,
        })
        .await;
    assert_eq!(
        (key, &record[..]),
        (stranger.signer.key(), &b"admission of 2"[..])
    );
    one.net.refuse(&key, None);
    assert_eq!(one.refusal().await, (key, ConnectionRefusal::Stranger));
    let told = stranger.refusal().await;
    assert_eq!(
        told,
        (
            one.signer.key(),
            ConnectionRefusal::Peer(u64::from(ConnectionRefusal::Stranger.code()))
        )
    );
    assert_eq!(one.count(|c| &c.strangers_refused), 1);
    assert_eq!(stranger.count(|c| &c.refused_by_peer), 1);
}

#[tokio::test]
async fn who_is_out_is_told_why() {
    let (mut one, mut two) = (Node::start(1), Node::start(2));
    two.knows(&[&one]);
    two.say(&one, Lane::Stream, "as always");
    let arrival = one.event(|event| match event {
        NetEvent::Hello { key, .. } => Some(key),
        _ => None,
    });
    let key = arrival.await;
    one.net.refuse(&key, Some("you were expelled".into()));
    assert_eq!(two.hears(one.id).await, "you were expelled");
    assert_eq!(
        two.refusal().await.1,
        ConnectionRefusal::Peer(u64::from(ConnectionRefusal::Removed.code()))
    );
}

#[tokio::test]
async fn a_stranger_whose_hello_is_believed_loses_nothing() {
    let (mut one, two) = (Node::start(1), Node::start(2));
    two.knows(&[&one]);
    two.say(&one, Lane::Stream, "first words");
    one.event(|event| matches!(event, NetEvent::Hello { .. }).then_some(()))
        .await;
    one.net.admit(two.admitted());
    assert_eq!(one.hears(two.id).await, "first words");
    assert_eq!(one.count(|c| &c.strangers_refused), 0);
}

#[tokio::test]
async fn another_cluster_is_refused_by_its_hello() {
    let other = QuicConfig::new(ClusterId([2; 16]));
    let mut one = Node::start(1);
    let mut two = Node::with(2, Ed25519Signer::generate(), other);
    two.knows(&[&one]);
    two.say(&one, Lane::Stream, "wrong address");
    assert_eq!(
        one.refusal().await,
        (two.signer.key(), ConnectionRefusal::OtherCluster)
    );
    assert!(matches!(two.refusal().await.1, ConnectionRefusal::Peer(7)));
    assert_eq!(one.count(|c| &c.bad_hello), 1);
}

#[tokio::test]
async fn who_is_removed_is_disconnected_and_stays_out() {
    let (mut one, mut two) = pair();
    one.say(&two, Lane::Stream, "hello");
    two.hears(one.id).await;
    one.net.members(vec![]);
    assert_eq!(
        two.refusal().await.1,
        ConnectionRefusal::Peer(u64::from(ConnectionRefusal::Removed.code()))
    );
    two.say(&one, Lane::Stream, "still here");
    let arrivals = one.event(|event| match event {
        NetEvent::Hello { key, .. } => Some(key),
        NetEvent::Frame { .. } => panic!("a frame of somebody removed"),
        _ => None,
    });
    assert_eq!(arrivals.await, two.signer.key());
}

#[tokio::test]
async fn another_key_at_the_address_hears_nothing() {
    let (one, mut two) = pair();
    let impostor = Admitted {
        key: Ed25519Signer::generate().key(),
        ..two.admitted()
    };
    one.net.members(vec![impostor]);
    one.say(&two, Lane::Stream, "secret");
    one.counted(1, |c| &c.wrong_key).await;
    assert!(one.net.links().is_empty());
    while let Ok(event) = two.events.try_recv() {
        assert!(!matches!(event, NetEvent::Frame { .. }));
    }
}

#[tokio::test]
async fn a_dead_peer_delays_nobody() {
    let (one, mut two) = pair();
    let silent: Vec<std::net::UdpSocket> = (0..40)
        .map(|_| std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
        .collect();
    for (id, socket) in (100..).zip(&silent) {
        one.net.admit(Admitted {
            id: MemberId(id),
            key: Ed25519Signer::generate().key(),
            addresses: vec![socket.local_addr().unwrap()],
        });
        one.net
            .send(MemberId(id), Lane::Liveness, "anybody?".into());
    }
    let begun = std::time::Instant::now();
    one.say(&two, Lane::Stream, "hello");
    assert_eq!(two.hears(one.id).await, "hello");
    // A dead dial takes its whole time; this one took its own.
    assert!(
        begun.elapsed() < super::config::DIAL_TIME,
        "{:?}",
        begun.elapsed()
    );
    one.counted(40, |c| &c.dial_failed).await;
}

#[tokio::test]
async fn the_second_address_is_found_when_the_first_is_dead() {
    let (one, mut two) = pair();
    let dead = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut admitted = two.admitted();
    admitted.addresses.insert(0, dead.local_addr().unwrap());
    one.net.members(vec![admitted]);
    one.say(&two, Lane::Stream, "hello");
    assert_eq!(two.hears(one.id).await, "hello");
    assert_eq!(one.count(|c| &c.dial_failed), 0);
}

#[tokio::test]
async fn a_link_follows_the_dialer_to_another_address() {
    let (mut one, mut two) = pair();
    gets_through(&one, &mut two, "before").await;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let new = socket.local_addr().unwrap();
    one.net.rebind(socket).unwrap();
    gets_through(&one, &mut two, "after").await;
    gets_through(&two, &mut one, "and back").await;
    until(|| two.net.links().iter().any(|link| link.address == new)).await;
    assert_eq!(one.count(|c| &c.dialed), 1);
}

#[tokio::test]
async fn a_member_is_dialed_as_soon_as_there_is_a_port() {
    let (one, mut two) = pair();
    one.net.close_port();
    one.say(&two, Lane::Stream, "into the void");
    tokio::time::sleep(2 * super::config::DIAL_TIME).await;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    one.net.rebind(socket).unwrap();
    gets_through(&one, &mut two, "hello").await;
    assert_eq!(one.count(|c| &c.dialed), 1);
    assert_eq!(one.count(|c| &c.dial_failed), 0);
}

#[tokio::test]
async fn a_node_that_was_dialed_and_moves_dials_anew() {
    let (mut one, mut two) = pair();
    gets_through(&one, &mut two, "before").await;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    two.net.rebind(socket).unwrap();
    // The one that dialed takes no packets from elsewhere; both keep talking.
    let talk = tokio::spawn(repeats(&one, two.id, "are you there?"));
    gets_through(&two, &mut one, "I moved").await;
    talk.abort();
    assert!(two.count(|c| &c.dialed) >= 1);
}

#[test]
fn a_node_that_restarts_at_its_address_is_back_at_once() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
    };
    let (runtime, former_life) = (runtime().unwrap(), runtime().unwrap());
    let signer = Ed25519Signer::generate();
    let mut two =
        former_life.block_on(async { Node::with(2, signer.clone(), QuicConfig::new(CLUSTER)) });
    let one = runtime.block_on(async { Node::start(1) });
    one.knows(&[&two]);
    two.knows(&[&one]);
    runtime.block_on(gets_through(&one, &mut two, "before"));
    let address = two.net.address().unwrap();
    drop(two);
    // It ends without a word.
    former_life.shutdown_background();
    runtime.block_on(async {
        let config = QuicConfig {
            listen: address,
            ..QuicConfig::new(CLUSTER)
        };
        let mut bound = None;
        until(|| {
            bound = bind(config.clone(), &signer, MonotonicClock::default()).ok();
            bound.is_some()
        })
        .await;
        let (net, events) = bound.unwrap();
        let mut back = Node {
            id: MemberId(2),
            signer,
            net,
            events,
        };
        back.knows(&[&one]);
        let begun = std::time::Instant::now();
        gets_through(&one, &mut back, "welcome back").await;
        assert!(
            begun.elapsed() < super::config::SILENCE,
            "{:?}",
            begun.elapsed()
        );
    });
}

#[tokio::test]
async fn one_key_on_two_machines_is_no_disaster() {
    let (mut one, two) = pair();
    let clone = Node::with(2, two.signer.clone(), QuicConfig::new(CLUSTER));
    clone.knows(&[&one]);
    let quarrel = [
        tokio::spawn(repeats(&two, one.id, "I am two")),
        tokio::spawn(repeats(&clone, one.id, "no, I am")),
    ];
    one.counted(5, |c| &c.duplicate_link).await;
    let third = Node::start(3);
    third.knows(&[&one]);
    one.net.admit(third.admitted());
    gets_through(&third, &mut one, "peace").await;
    assert!(one.count(|c| &c.accepted) < 20);
    quarrel.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Connects like a program that is none of ours, with any key.
async fn connect(
    from: &quinn::Endpoint,
    signer: &Ed25519Signer,
    to: SocketAddr,
) -> Option<quinn::Connection> {
    let config = tls::client(&signer.keypair(), &QuicConfig::new(CLUSTER)).unwrap();
    let connecting = from.connect_with(config, to, tls::SERVER_NAME).unwrap();
    timeout(Duration::from_secs(3), connecting).await.ok()?.ok()
}

fn client() -> quinn::Endpoint {
    quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap()
}

async fn utter(connection: &quinn::Connection, bytes: &[u8]) -> Result<(), quinn::WriteError> {
    let mut stream = connection.open_uni().await?;
    stream.write_all(bytes).await?;
    let _ = stream.finish();
    Ok(())
}

#[tokio::test]
async fn a_connection_without_a_certificate_is_none() {
    let one = Node::start(1);
    let signer = Ed25519Signer::generate();
    let mut tls = libp2p_tls::make_client_config(&signer.keypair(), None).unwrap();
    tls.alpn_protocols = vec![b"muster/1".to_vec()];
    tls.client_auth_cert_resolver = Arc::new(NoCertificate);
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let config = quinn::ClientConfig::new(Arc::new(tls));
    let connecting = client().connect_with(config, one.net.address().unwrap(), "muster");
    if let Ok(connection) = connecting.unwrap().await {
        connection.closed().await;
    }
    one.counted(1, |c| &c.handshake_failed).await;
    assert_eq!(one.count(|c| &c.accepted), 0);
}

#[derive(Debug)]
struct NoCertificate;

impl quinn::rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[quinn::rustls::SignatureScheme],
    ) -> Option<Arc<quinn::rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_member_that_sends_too_much_at_once_is_cut_off() {
    let mut one = Node::start(1);
    let signer = Ed25519Signer::generate();
    one.net.members(vec![Admitted {
        id: MemberId(2),
        key: signer.key(),
        addresses: vec![],
    }]);
    let endpoint = client();
    let connection = connect(&endpoint, &signer, one.net.address().unwrap())
        .await
        .unwrap();
    utter(&connection, &hello::encode(CLUSTER, b""))
        .await
        .unwrap();
    utter(&connection, b"a frame").await.unwrap();
    assert_eq!(one.hears(MemberId(2)).await, "a frame");
    let _ = utter(&connection, &vec![0; FRAME_BYTES_MAX + 1]).await;
    let quinn::ConnectionError::ApplicationClosed(closed) = connection.closed().await else {
        panic!("closed with a reason");
    };
    assert_eq!(
        closed.error_code,
        VarInt::from_u32(ConnectionRefusal::Oversize.code())
    );
    one.counted(1, |c| &c.oversize_in).await;
}

#[tokio::test]
async fn one_member_cannot_fill_the_queue_of_all() {
    let (one, mut two) = pair();
    let mut third = Node::start(3);
    two.net.admit(third.admitted());
    third.knows(&[&two]);
    // Nobody takes what comes in at two.
    one.say(&two, Lane::Stream, "first");
    until(|| two.count(|c| &c.frames_in) > 0).await;
    let flood = 20 * LINK_EVENTS_MAX as u64;
    until(|| {
        (0..64).for_each(|_| one.say(&two, Lane::Datagram, "flood"));
        one.count(|c| &c.frames_out) + one.count(|c| &c.queue_dropped) > flood
    })
    .await;
    until(|| two.count(|c| &c.receive_dropped) > 0).await;
    third.say(&two, Lane::Stream, "I am here too");
    until(|| two.count(|c| &c.frames_in) > LINK_EVENTS_MAX as u64).await;
    assert_eq!(two.hears(third.id).await, "I am here too");
    two.say(&third, Lane::Liveness, "I know");
    assert_eq!(third.hears(two.id).await, "I know");
}

#[tokio::test]
async fn strangers_that_say_nothing_or_nonsense_go_away() {
    let one = Node::start(1);
    let address = one.net.address().unwrap();
    let endpoint = client();
    let nonsense = connect(&endpoint, &Ed25519Signer::generate(), address)
        .await
        .unwrap();
    utter(&nonsense, b"GET / HTTP/1.1").await.unwrap();
    nonsense.closed().await;
    assert_eq!(one.count(|c| &c.bad_hello), 1);
    let mute = connect(&endpoint, &Ed25519Signer::generate(), address)
        .await
        .unwrap();
    mute.closed().await;
    assert_eq!(one.count(|c| &c.strangers_refused), 1);
}

#[tokio::test]
async fn ten_thousand_connections_of_strangers_do_no_harm() {
    let config = QuicConfig {
        address_rate: 200,
        ..QuicConfig::new(CLUSTER)
    };
    let (mut one, two) = (
        Node::with(1, Ed25519Signer::generate(), config),
        Node::start(2),
    );
    one.net.members(vec![two.admitted()]);
    two.knows(&[&one]);
    gets_through(&two, &mut one, "before").await;
    let address = one.net.address().unwrap();
    let endpoint = client();
    let config = tls::client(
        &Ed25519Signer::generate().keypair(),
        &QuicConfig::new(CLUSTER),
    )
    .unwrap();
    let flood: Vec<_> = (0..10_000)
        .filter_map(|_| {
            endpoint
                .connect_with(config.clone(), address, tls::SERVER_NAME)
                .ok()
        })
        .collect();
    // Packets go out while the test waits; a member's link works all the while.
    let limited =
        || one.count(|c| &c.address_limited) + one.count(|c| &c.handshakes_limited) > 1_000;
    until(limited).await;
    // Those that were refused are counted until their last packets are through: for less than a
    // second, at 200 of them a second.
    let ending = 200;
    let most = HANDSHAKES_MAX + HELD_PER_ADDRESS_MAX + 2 + ending;
    let open = one.net.open_connections();
    assert!(open <= most, "{open} connections");
    gets_through(&two, &mut one, "during").await;
    drop(flood);
    endpoint.close(VarInt::from_u32(0), b"");
    gets_through(&two, &mut one, "after").await;
}

#[tokio::test]
async fn garbage_is_no_packet() {
    let (mut one, two) = pair();
    gets_through(&two, &mut one, "before").await;
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut state = 1_u64;
    for len in (0..20_000).map(|n| n % 1_400) {
        let garbage: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .take(len)
        .collect();
        let _ = socket.send_to(&garbage, one.net.address().unwrap());
        if len % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    gets_through(&two, &mut one, "after").await;
    assert_eq!(two.count(|c| &c.dialed), 1);
    // Some do not fit into the socket, and a quarter looks like packets.
    let noise = one.count(|c| &c.not_quic);
    assert!(noise > 1_000, "{noise}");
    assert_eq!(two.count(|c| &c.not_quic), 0);
}
