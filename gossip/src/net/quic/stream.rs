//! Streams between members: bytes in both directions, for as long as both sides want.
//!
//! A stream begins with a header, whose meaning is the caller's. It runs on the link of the two members,
//! behind everything that the mesh itself sends there.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::config::{STREAM_HEADER_BYTES_MAX, STREAMS_WAITING_MAX};
use super::handle::NetHandle;
use super::peer::QuicPeer;
use super::request::{StreamTurn, linked};
use super::shared::EndpointShared;
use crate::member::MemberId;

/// First byte of a stream.
pub(super) const STREAM: u8 = 2;
/// First byte of a stream that has nothing else: the link is in use.
pub(super) const KEEP_ALIVE: u8 = 3;
/// How often the member that opened a stream shows that the link is in use. A link without a sign of life is
/// closed after [`QuicConfig::idle`](super::QuicConfig::idle).
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(3);
/// Lower than that of all other streams of the link, which is 0.
const PRIORITY: i32 = -1;
/// The code of a stream that was given up before its end.
const GIVEN_UP: VarInt = VarInt::from_u32(1);

/// Why a stream could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// No member has that number.
    #[error("it is not a member, as far as is known here")]
    Unknown,
    /// The member cannot be reached.
    #[error("it cannot be reached")]
    Unreachable,
    /// As many streams to the member are open as may be.
    #[error("too many streams to it are open")]
    TooMany,
    /// The header is too long.
    #[error("a header of {0} bytes; {STREAM_HEADER_BYTES_MAX} are the most")]
    TooLong(usize),
    /// The link broke.
    #[error("the link to it broke: {0}")]
    Broken(String),
}

/// A member has opened a stream.
#[derive(Debug)]
pub struct IncomingStream {
    /// The member.
    pub from: MemberId,
    /// What it wrote first.
    pub header: Vec<u8>,
    /// The rest.
    pub stream: MeshStream,
}

/// Bytes to and from a member. Dropped before it was shut down, it ends with an error at the other side, so that
/// a part is never taken for the whole.
#[derive(Debug)]
pub struct MeshStream {
    sending: SendStream,
    receiving: RecvStream,
    is_finished: bool,
    keep_alive: Option<JoinHandle<()>>,
    #[allow(dead_code, reason = "held, never read")]
    turn: StreamTurn,
}

impl MeshStream {
    fn new((sending, receiving): (SendStream, RecvStream), turn: StreamTurn) -> Self {
        // It fails only for a stream that has ended.
        let _ = sending.set_priority(PRIORITY);
        Self {
            sending,
            receiving,
            is_finished: false,
            keep_alive: None,
            turn,
        }
    }
}

impl Drop for MeshStream {
    fn drop(&mut self) {
        if let Some(keep_alive) = &self.keep_alive {
            keep_alive.abort();
        }
        if !self.is_finished {
            // One that was stopped by the other side has ended already.
            let _ = self.sending.reset(GIVEN_UP);
        }
    }
}

impl AsyncRead for MeshStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        AsyncRead::poll_read(Pin::new(&mut self.receiving), context, into)
    }
}

impl AsyncWrite for MeshStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.sending), context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.sending), context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_finished = true;
        AsyncWrite::poll_shutdown(Pin::new(&mut self.sending), context)
    }
}

impl NetHandle {
    /// Takes the streams of members from now on. Until then they are given up at once.
    pub fn streams(&self) -> mpsc::Receiver<IncomingStream> {
        let (sender, receiver) = mpsc::channel(STREAMS_WAITING_MAX);
        *self.shared.streams() = Some(sender);
        receiver
    }

    /// Opens a stream to a member, within the limit.
    ///
    /// # Errors
    /// [`StreamError`]
    pub async fn open_stream(
        &self,
        to: MemberId,
        header: &[u8],
        limit: Duration,
    ) -> Result<MeshStream, StreamError> {
        if header.len() > STREAM_HEADER_BYTES_MAX {
            return Err(StreamError::TooLong(header.len()));
        }
        let peer = self.shared.table().member(to).cloned();
        let peer = peer.ok_or(StreamError::Unknown)?;
        let until = Instant::now() + limit;
        let link = linked(&self.shared, &peer, until).await;
        let link = link.map_err(|_| StreamError::Unreachable)?;
        let turn = link.underway.outgoing().ok_or(StreamError::TooMany)?;
        let opened = timeout_at(until, open(&link.connection, header)).await;
        let streams = opened.map_err(|_| StreamError::Unreachable)?;
        let streams = streams.map_err(|error| StreamError::Broken(error.to_string()))?;
        let mut stream = MeshStream::new(streams, turn);
        stream.keep_alive = Some(tokio::spawn(keep_alive(link.connection)));
        Ok(stream)
    }
}

async fn open(connection: &Connection, header: &[u8]) -> io::Result<(SendStream, RecvStream)> {
    let (mut sending, receiving) = connection.open_bi().await?;
    let length = u32::try_from(header.len()).map_err(io::Error::other)?;
    let mut begin = vec![STREAM];
    begin.extend(length.to_be_bytes());
    begin.extend(header);
    sending.write_all(&begin).await?;
    Ok((sending, receiving))
}

async fn keep_alive(connection: Connection) {
    loop {
        tokio::time::sleep(KEEP_ALIVE_EVERY).await;
        let Ok((mut sending, _)) = connection.open_bi().await else {
            return;
        };
        if sending.write_all(&[KEEP_ALIVE]).await.is_err() || sending.finish().is_err() {
            return;
        }
    }
}

/// Reads the header of a stream that a member has opened, whose first byte was read.
pub(super) async fn header(receiving: &mut RecvStream) -> Option<Vec<u8>> {
    let length = receiving.read_u32().await.ok()?;
    let length = usize::try_from(length).ok()?;
    if length > STREAM_HEADER_BYTES_MAX {
        return None;
    }
    let mut header = vec![0; length];
    receiving.read_exact(&mut header).await.ok()?;
    Some(header)
}

/// Hands a stream over. It is given up at once where the queue is full, and where its member was removed meanwhile.
pub(super) fn hand_over(
    shared: &EndpointShared,
    peer: &Arc<QuicPeer>,
    header: Vec<u8>,
    (streams, turn): ((SendStream, RecvStream), StreamTurn),
) {
    let takers = shared.streams().clone();
    let incoming = IncomingStream {
        from: peer.id,
        header,
        stream: MeshStream::new(streams, turn),
    };
    if let Some(takers) = takers.filter(|_| !peer.state().is_removed()) {
        // Dropped, it ends with an error for the member that opened it.
        let _ = takers.try_send(incoming);
    }
}
