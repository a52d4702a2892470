//! Requests between members: a QUIC stream of both directions for each, closed by its answer.
//!
//! What the bytes mean is none of this module's business. Only members ask: a connection is served
//! once its key is known to be a member's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quinn::{Connection, ConnectionError, RecvStream, SendStream, WriteError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};

use super::config::{MESH_STREAMS_MAX, MESSAGE_BYTES_MAX, REQUESTS_WAITING_MAX};
use super::dial;
use super::handle::NetHandle;
use super::peer::{PeerLink, QuicPeer};
use super::shared::EndpointShared;
use super::stream;
use crate::member::MemberId;
use crate::net::counters::count;

/// How long a request waits for a link to the member, where there is none.
const LINK_TIME: Duration = Duration::from_secs(5);
/// How often the link is asked for meanwhile: a dial ends when nobody asks for it any more.
const LINK_AGAIN: Duration = Duration::from_secs(1);
/// How long a member may take to say that it listens.
const READY_TIME: Duration = Duration::from_secs(1);
/// A member says that it listens.
const READY: u8 = 1;
/// How long a member may take to send a request whole, or to receive an answer.
const SEND_TIME: Duration = Duration::from_secs(15);

/// How a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once: it does no harm if it is sent again.
    AtLeastOnce,
    /// Once the member has said that it listens: a round trip more, and known not to have been sent
    /// to a machine that is gone.
    AtMostOnce,
}

impl Delivery {
    /// First byte of a request.
    const fn byte(self) -> u8 {
        match self {
            Self::AtLeastOnce => 0,
            Self::AtMostOnce => 1,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nobody of that number is a member. Nothing was sent.
    #[error("it is not a member, as far as is known here")]
    Unknown,
    /// The member cannot be reached. Nothing was sent.
    #[error("it cannot be reached")]
    Unreachable,
    /// The request is too long. Nothing was sent.
    #[error("a request of {0} bytes; {MESSAGE_BYTES_MAX} are the most")]
    TooLong(usize),
    /// The request was sent, in part or whole, and no answer came: it may have been carried out.
    #[error("no answer came: {0}")]
    NoAnswer(String),
}

/// A member asks.
#[derive(Debug)]
pub struct IncomingRequest {
    /// Who.
    pub from: MemberId,
    /// What.
    pub bytes: Vec<u8>,
    /// Answers it; dropped, the member learns that there is no answer.
    pub responder: Responder,
}

/// Answers one request.
#[derive(Debug)]
pub struct Responder {
    stream: SendStream,
    #[allow(dead_code, reason = "held, never read")]
    turn: UnderwayGuard,
}

impl Responder {
    /// Sends the answer, and waits until it has arrived. A member that is gone needs none.
    pub async fn answer(mut self, bytes: &[u8]) {
        if self.stream.write_all(bytes).await.is_ok() && self.stream.finish().is_ok() {
            let _ = timeout(SEND_TIME, self.stream.stopped()).await;
        }
    }
}

/// Counts the requests and streams under way on a link, in both directions: the link is not closed meanwhile.
#[derive(Clone, Debug)]
pub(super) struct Underway {
    requests: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
    /// Bounds the streams that are opened here.
    outgoing: Arc<Semaphore>,
}

impl Default for Underway {
    fn default() -> Self {
        Self {
            requests: Arc::default(),
            streams: Arc::default(),
            outgoing: Arc::new(Semaphore::new(MESH_STREAMS_MAX as usize)),
        }
    }
}

impl Underway {
    /// Whether there is any request.
    pub(super) fn is_any(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether there is any stream.
    pub(super) fn has_streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    fn turn(&self) -> UnderwayGuard {
        UnderwayGuard::of(&self.requests)
    }

    /// A stream that is opened here; none if there are too many.
    pub(super) fn outgoing(&self) -> Option<StreamTurn> {
        let permit = Arc::clone(&self.outgoing).try_acquire_owned().ok()?;
        Some(StreamTurn {
            counted: UnderwayGuard::of(&self.streams),
            permit: Some(permit),
        })
    }

    fn incoming(&self) -> StreamTurn {
        StreamTurn {
            counted: UnderwayGuard::of(&self.streams),
            permit: None,
        }
    }
}

/// One of them, until this is dropped.
#[derive(Debug)]
struct UnderwayGuard(Arc<AtomicUsize>);

impl UnderwayGuard {
    fn of(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for UnderwayGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream under way, until this is dropped.
#[derive(Debug)]
#[allow(dead_code, reason = "held, never read")]
pub(super) struct StreamTurn {
    counted: UnderwayGuard,
    permit: Option<OwnedSemaphorePermit>,
}

impl NetHandle {
    /// Takes the requests of members from now on. Before that nobody answers them.
    pub fn requests(&self) -> mpsc::Receiver<IncomingRequest> {
        let (sender, receiver) = mpsc::channel(REQUESTS_WAITING_MAX);
        *self.shared.requests() = Some(sender);
        receiver
    }

    /// Asks a member, and waits for the answer until the limit has passed.
    ///
    /// # Errors
    /// [`RequestError`]; each says whether the request may have been carried out.
    pub async fn request(
        &self,
        (to, delivery): (MemberId, Delivery),
        bytes: &[u8],
        limit: Duration,
    ) -> Result<Vec<u8>, RequestError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(RequestError::TooLong(bytes.len()));
        }
        let peer = self.shared.table().member(to).cloned();
        let peer = peer.ok_or(RequestError::Unknown)?;
        let until = Instant::now() + limit;
        let link = linked(&self.shared, &peer, until).await?;
        let _turn = link.underway.turn();
        count(&self.shared.counters.requests_out);
        let asked = timeout_at(until, ask(&link.connection, delivery, bytes)).await;
        let late = |_| RequestError::NoAnswer(format!("it takes longer than {limit:?}"));
        asked.map_err(late)?
    }
}

/// The link to a member, made if there is none.
pub(super) async fn linked(
    shared: &Arc<EndpointShared>,
    peer: &Arc<QuicPeer>,
    until: Instant,
) -> Result<PeerLink, RequestError> {
    let until = until.min(Instant::now() + LINK_TIME);
    while Instant::now() < until {
        let linked = peer.linked.notified();
        let (dial, link) = {
            let mut state = peer.state();
            let dial = state.want(Instant::now());
            (dial, state.open_link().cloned())
        };
        if dial {
            tokio::spawn(dial::run(Arc::clone(shared), Arc::clone(peer)));
        }
        // One that is silent is asked as well: nothing better is known of it.
        if let Some(link) = link {
            return Ok(link);
        }
        let again = until.min(Instant::now() + LINK_AGAIN);
        // A link that came meanwhile is seen at the next turn.
        let _ = timeout_at(again, linked).await;
    }
    Err(RequestError::Unreachable)
}

async fn ask(
    connection: &Connection,
    delivery: Delivery,
    bytes: &[u8],
) -> Result<Vec<u8>, RequestError> {
    let opened = timeout(READY_TIME, open(connection, delivery)).await;
    // Nothing of it was sent where the link broke first.
    let opened = opened.ok().flatten().ok_or(RequestError::Unreachable);
    let (mut sending, mut receiving) = opened?;
    let no_answer = |why: &dyn std::fmt::Display| RequestError::NoAnswer(why.to_string());
    match sending.write_all(bytes).await {
        Ok(()) => {}
        // It may have an answer without having read everything.
        Err(WriteError::Stopped(_)) => {}
        Err(why) => return Err(no_answer(&why)),
    }
    let _ = sending.finish();
    let answer = receiving.read_to_end(MESSAGE_BYTES_MAX).await;
    let answer = answer.map_err(|why| no_answer(&why))?;
    match answer.is_empty() {
        true => Err(no_answer(&"it does not take such requests now")),
        false => Ok(answer),
    }
}

/// Streams for a request, with its first byte sent; with the member's word that it listens where
/// that is asked for.
async fn open(connection: &Connection, delivery: Delivery) -> Option<(SendStream, RecvStream)> {
    let (mut sending, mut receiving) = connection.open_bi().await.ok()?;
    sending.write_all(&[delivery.byte()]).await.ok()?;
    if delivery == Delivery::AtMostOnce {
        let mut ready = [0];
        receiving.read_exact(&mut ready).await.ok()?;
    }
    Some((sending, receiving))
}

/// Reads requests of a member, each on its own, and hands them over.
pub(super) async fn receive(
    shared: &Arc<EndpointShared>,
    peer: &Arc<QuicPeer>,
    (connection, underway): (&Connection, &Underway),
) -> ConnectionError {
    loop {
        let streams = match connection.accept_bi().await {
            Ok(streams) => streams,
            Err(why) => return why,
        };
        // QUIC bounds how many there are.
        let (shared, peer) = (Arc::clone(shared), Arc::clone(peer));
        let underway = underway.clone();
        tokio::spawn(async move { take(&shared, &peer, streams, &underway).await });
    }
}

/// Reads what a member has opened: a request, or the beginning of a stream.
async fn take(
    shared: &EndpointShared,
    peer: &Arc<QuicPeer>,
    (mut sending, mut receiving): (SendStream, RecvStream),
    underway: &Underway,
) -> Option<()> {
    let turn = underway.turn();
    let mut first = [0];
    let until = Instant::now() + SEND_TIME;
    let read = timeout_at(until, receiving.read_exact(&mut first)).await;
    read.ok()?.ok()?;
    match first {
        [stream::KEEP_ALIVE] => {}
        [stream::STREAM] => {
            let turn = underway.incoming();
            let header = timeout_at(until, stream::header(&mut receiving)).await;
            let opened = ((sending, receiving), turn);
            stream::hand_over(shared, peer, header.ok()??, opened);
        }
        _ => {
            let reading = read_request(first, &mut sending, receiving);
            let bytes = timeout_at(until, reading).await.ok()??;
            let stream = sending;
            hand_over(shared, peer, bytes, Responder { stream, turn });
        }
    }
    Some(())
}

async fn read_request(
    first: [u8; 1],
    answers: &mut SendStream,
    mut stream: RecvStream,
) -> Option<Vec<u8>> {
    if first == [Delivery::AtMostOnce.byte()] {
        answers.write_all(&[READY]).await.ok()?;
    }
    stream.read_to_end(MESSAGE_BYTES_MAX).await.ok()
}

/// A request that nobody has room for is not answered, nor is one of a member that was removed
/// meanwhile: its sender hears so at once.
fn hand_over(shared: &EndpointShared, peer: &QuicPeer, bytes: Vec<u8>, responder: Responder) {
    let requests = shared.requests().clone();
    let requests = requests.filter(|_| !peer.state().is_removed());
    let incoming = IncomingRequest {
        from: peer.id,
        bytes,
        responder,
    };
    let taken = requests.is_some_and(|requests| requests.try_send(incoming).is_ok());
    match taken {
        true => count(&shared.counters.requests_in),
        false => count(&shared.counters.requests_refused),
    }
}
