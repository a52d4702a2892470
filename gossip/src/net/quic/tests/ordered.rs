//! The lane that keeps order.

use super::super::ordered::HEAD;
use super::*;

/// Frames of all sizes, each of bytes that tell it from its neighbours.
fn mixed(count: u8) -> Vec<Bytes> {
    let sizes = [1, 3, 4, 5, 1_000, 1, 20_000, 2, 70_000, FRAME_BYTES_MAX];
    let sizes = sizes.into_iter().cycle();
    (0..count)
        .zip(sizes)
        .map(|(n, len)| vec![n; len].into())
        .collect()
}

fn give(from: &Node, to: MemberId, frames: &[Bytes]) {
    for frame in frames {
        from.net.send(to, Lane::Ordered, frame.clone());
    }
}

async fn hears_all(node: &mut Node, from: MemberId, frames: &[Bytes]) {
    for (n, frame) in frames.iter().enumerate() {
        assert!(node.hears(from).await == frame, "frame {n}");
    }
}

/// Waits till there is a link.
async fn met(one: &Node, two: &mut Node) {
    one.say(two, Lane::Stream, "hello");
    assert_eq!(two.hears(one.id).await, "hello");
}

/// A node and its peer, which the test plays.
struct Played {
    node: Node,
    signer: Ed25519Signer,
    endpoint: quinn::Endpoint,
}

const PEER: MemberId = MemberId(2);

impl Played {
    fn start() -> Self {
        let (node, signer) = (Node::start(1), Ed25519Signer::generate());
        node.net.members(vec![Admitted {
            id: PEER,
            key: signer.key(),
            addresses: vec![],
        }]);
        Self {
            node,
            signer,
            endpoint: client(),
        }
    }

    /// A new link, with its hello said.
    async fn link(&self) -> quinn::Connection {
        let address = self.node.net.address().unwrap();
        let connection = connect(&self.endpoint, &self.signer, address).await;
        let connection = connection.unwrap();
        let hello = hello::encode(CLUSTER, b"");
        utter(&connection, &hello).await.unwrap();
        connection
    }

    /// A stream of frames that goes on.
    async fn stream(&self, link: &quinn::Connection, frames: &[&[u8]]) -> quinn::SendStream {
        let mut stream = link.open_uni().await.unwrap();
        stream.write_all(&HEAD).await.unwrap();
        for frame in frames {
            let length = u32::try_from(frame.len()).unwrap();
            stream.write_all(&length.to_le_bytes()).await.unwrap();
            stream.write_all(frame).await.unwrap();
        }
        stream
    }

    async fn ended(&mut self) {
        let ended = |event| matches!(event, NetEvent::Disconnected { .. }).then_some(());
        self.node.event(ended).await;
    }
}

#[tokio::test]
async fn frames_of_all_sizes_arrive_in_order_in_both_directions() {
    let (mut one, mut two) = pair();
    met(&one, &mut two).await;
    let (there, back) = (mixed(140), mixed(90));
    give(&one, two.id, &there);
    give(&two, one.id, &back);
    let (first, second) = (one.id, two.id);
    tokio::join!(
        hears_all(&mut two, first, &there),
        hears_all(&mut one, second, &back)
    );
    let given_up = |c: &NetCounters| c.queue_dropped.load(Ordering::Relaxed);
    assert_eq!(
        [&one, &two].map(|node| given_up(node.net.counters())),
        [0, 0]
    );
}

#[tokio::test]
async fn order_holds_over_links_that_break_and_come_again() {
    let (one, mut two) = pair();
    let number = |frame: &Bytes| u32::from_le_bytes(frame[..4].try_into().unwrap());
    let frame = |n: u32| Bytes::from(n.to_le_bytes().repeat(1 + n as usize * 37 % 5_000));
    let mut heard = 0;
    for life in 1..=5_u32 {
        let last = life * 200;
        for n in (life - 1) * 200 + 1..=last {
            one.net.send(two.id, Lane::Ordered, frame(n));
        }
        // The first lives end in the middle of it.
        let enough = if life == 5 { last } else { last - 150 };
        while heard < enough {
            let bytes = two.hears(one.id).await;
            assert!(number(&bytes) > heard, "{} after {heard}", number(&bytes));
            heard = number(&bytes);
            assert!(bytes == frame(heard), "frame {heard} is damaged");
        }
        if life < 5 {
            one.net.members(vec![]);
            one.knows(&[&two]);
        }
    }
    assert!(one.count(|c| &c.dialed) >= 5);
}

#[tokio::test]
async fn half_a_frame_is_none() {
    let mut played = Played::start();
    let link = played.link().await;
    // A stream that ends in the middle of a frame, and a link that does.
    let half = |mut stream: quinn::SendStream| async {
        stream.write_all(&100_u32.to_le_bytes()).await.unwrap();
        stream.write_all(b"the half of the n").await.unwrap();
        stream
    };
    let stream = played.stream(&link, &[b"first"]).await;
    half(stream).await.finish().unwrap();
    let stream = played.stream(&link, &[b"second", b"third"]).await;
    let _stream = half(stream).await;
    for words in ["first", "second", "third"] {
        assert_eq!(played.node.hears(PEER).await, words);
    }
    link.close(VarInt::from_u32(0), b"");
    played.ended().await;
    let link = played.link().await;
    let _stream = played.stream(&link, &[b"fourth"]).await;
    assert_eq!(played.node.hears(PEER).await, "fourth");
}

#[tokio::test]
async fn a_stream_that_breaks_is_replaced_on_the_same_link() {
    let mut played = Played::start();
    let link = played.link().await;
    let connected = |event| matches!(event, NetEvent::Connected { .. }).then_some(());
    played.node.event(connected).await;
    for words in ["one", "two", "three"] {
        give(&played.node, PEER, &[words.into()]);
        let mut stream = timeout(PATIENCE, link.accept_uni()).await.unwrap().unwrap();
        let mut start = vec![0; HEAD.len() + 4 + words.len()];
        stream.read_exact(&mut start).await.unwrap();
        let length = u32::try_from(words.len()).unwrap().to_le_bytes();
        assert_eq!(start, [&HEAD, &length, words.as_bytes()].concat());
        stream.stop(VarInt::from_u32(0)).unwrap();
        // What follows must find the stream stopped: nothing else tells that it has heard so.
        utter(&link, b"stopped").await.unwrap();
        assert_eq!(played.node.hears(PEER).await, "stopped");
    }
    assert_eq!(played.node.count(|c| &c.link_closed), 0);
}

#[tokio::test]
async fn a_stream_that_takes_the_place_of_another_is_read_after_it() {
    let mut played = Played::start();
    let link = played.link().await;
    let mut stream = played.stream(&link, &[b"first"]).await;
    assert_eq!(played.node.hears(PEER).await, "first");
    let _next = played.stream(&link, &[b"third"]).await;
    utter(&link, b"of no order").await.unwrap();
    assert_eq!(played.node.hears(PEER).await, "of no order");
    stream.write_all(&6_u32.to_le_bytes()).await.unwrap();
    stream.write_all(b"second").await.unwrap();
    assert_eq!(played.node.hears(PEER).await, "second");
    stream.reset(VarInt::from_u32(0)).unwrap();
    assert_eq!(played.node.hears(PEER).await, "third");
}

#[tokio::test]
async fn who_announces_too_long_a_frame_is_cut_off() {
    let mut played = Played::start();
    let link = played.link().await;
    let longest = vec![7; FRAME_BYTES_MAX];
    let mut stream = played.stream(&link, &[&longest]).await;
    assert_eq!(played.node.hears(PEER).await, longest);
    let length = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
    stream.write_all(&length.to_le_bytes()).await.unwrap();
    let quinn::ConnectionError::ApplicationClosed(closed) = link.closed().await else {
        panic!("closed with a reason");
    };
    let oversize = VarInt::from_u32(ConnectionRefusal::Oversize.code());
    assert_eq!(closed.error_code, oversize);
    played.node.counted(1, |c| &c.oversize_in).await;
}

#[tokio::test]
async fn documents_that_wait_delay_nothing_that_keeps_order() {
    let (one, mut two) = pair();
    met(&one, &mut two).await;
    let chunk = Bytes::from(vec![1; FRAME_BYTES_MAX]);
    for _ in 0..8 {
        one.net.send(two.id, Lane::Stream, chunk.clone());
    }
    give(&one, two.id, &["now".into()]);
    let mut before = 0;
    while two.hears(one.id).await != "now" {
        before += 1;
    }
    // Both go out at once: of the first document some may be in its first packet.
    assert!(before < 2, "it came after {before} others");
    assert_eq!(one.count(|c| &c.queue_dropped), 0);
}
