//! Streams between members.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const LIMIT: Duration = Duration::from_secs(10);

/// Two members of one cluster, of which the second serves streams. A link is closed after 4 seconds of silence.
fn pair() -> (Node, Node, mpsc::Receiver<IncomingStream>) {
    let node = |number| {
        let config = QuicConfig {
            idle: Duration::from_secs(4),
            ..QuicConfig::new(CLUSTER)
        };
        let signer = Ed25519Signer::generate();
        Node::with(number, signer, config)
    };
    let (one, two) = (node(1), node(2));
    one.knows(&[&two]);
    two.knows(&[&one]);
    let streams = two.net.streams();
    (one, two, streams)
}

async fn opened(
    one: &Node,
    two: &Node,
    streams: &mut mpsc::Receiver<IncomingStream>,
) -> (MeshStream, IncomingStream) {
    let opening = one.net.open_stream(two.id, b"what", LIMIT);
    let (opened, incoming) = tokio::join!(opening, streams.recv());
    (opened.unwrap(), incoming.unwrap())
}

#[tokio::test]
async fn bytes_go_both_ways_and_each_way_ends_alone() {
    let (one, two, mut streams) = pair();
    let (stream, incoming) = opened(&one, &two, &mut streams).await;
    assert_eq!(
        (incoming.from, &incoming.header[..]),
        (one.id, &b"what"[..])
    );
    let (mut reading, mut writing) = tokio::io::split(stream);
    let long: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let sent = long.clone();
    let sending = async move {
        writing.write_all(&sent).await.unwrap();
        writing.shutdown().await.unwrap();
    };
    let echoing = async move {
        let mut stream = incoming.stream;
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        // The other way is open still.
        stream.write_all(&read).await.unwrap();
        stream.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let reading = reading.read_to_end(&mut back);
    let (_, (), read) = tokio::join!(sending, echoing, reading);
    read.unwrap();
    assert!(back == long, "{} bytes came back", back.len());
}

#[tokio::test]
async fn a_stream_that_is_given_up_is_no_end() {
    let (one, two, mut streams) = pair();
    let (mut stream, mut incoming) = opened(&one, &two, &mut streams).await;
    stream.write_all(b"half").await.unwrap();
    let mut half = [0; 4];
    incoming.stream.read_exact(&mut half).await.unwrap();
    drop(stream);
    let read = incoming.stream.read_to_end(&mut Vec::new()).await;
    assert!(read.is_err(), "{read:?}");
}

#[tokio::test]
async fn a_silent_stream_keeps_its_link() {
    let (one, two, mut streams) = pair();
    let (mut stream, mut incoming) = opened(&one, &two, &mut streams).await;
    tokio::time::sleep(Duration::from_secs(9)).await;
    incoming.stream.write_all(b"late").await.unwrap();
    let mut late = [0; 4];
    stream.read_exact(&mut late).await.unwrap();
    assert_eq!(&late, b"late");
}

/// Readers that have stopped fill the windows of their own streams, and of nothing else.
#[tokio::test]
async fn streams_that_nobody_reads_stop_no_request() {
    let (one, two, mut streams) = pair();
    let mut requests = two.net.requests();
    tokio::spawn(async move {
        while let Some(asked) = requests.recv().await {
            asked.responder.answer(b"here").await;
        }
    });
    let mut held = Vec::new();
    for _ in 0..12 {
        let (mut stream, incoming) = opened(&one, &two, &mut streams).await;
        let writing = async {
            let bytes = vec![0; 1 << 20];
            stream.write_all(&bytes).await
        };
        let full = timeout(Duration::from_millis(200), writing).await;
        assert!(full.is_err(), "a whole MiB fits");
        held.push((stream, incoming));
    }
    let asked = one
        .net
        .request((two.id, Delivery::AtLeastOnce), b"?", LIMIT);
    assert_eq!(asked.await.unwrap(), b"here");
}

#[tokio::test]
async fn there_are_bounds_and_each_is_told() {
    let (one, two, mut streams) = pair();
    let long = vec![0; 300 << 10];
    let asked = one.net.open_stream(two.id, &long, LIMIT).await;
    assert_eq!(asked.unwrap_err(), StreamError::TooLong(300 << 10));
    let asked = one.net.open_stream(MemberId(9), b"", LIMIT).await;
    assert_eq!(asked.unwrap_err(), StreamError::Unknown);
    let mut held = Vec::new();
    for _ in 0..256 {
        held.push(opened(&one, &two, &mut streams).await);
    }
    let asked = one.net.open_stream(two.id, b"", LIMIT).await;
    assert_eq!(asked.unwrap_err(), StreamError::TooMany);
    held.pop();
    opened(&one, &two, &mut streams).await;
}

/// Who does not serve streams gives up each at once.
#[tokio::test]
async fn a_member_that_serves_none_says_so() {
    let (one, two, streams) = pair();
    drop(streams);
    let mut stream = one.net.open_stream(two.id, b"", LIMIT).await.unwrap();
    let read = stream.read_to_end(&mut Vec::new()).await;
    assert!(read.is_err(), "{read:?}");
}
