//! The socket of all links. It counts what is no packet, which QUIC drops without a word, and
//! wakes its thread for what comes in only: a socket that waits for room as well is told of it
//! after every packet that has left.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use quinn::udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use quinn_proto::DEFAULT_SUPPORTED_VERSIONS;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::net::NetCounters;
use crate::net::counters::add;

/// Shorter than any packet, and than what tells of a link that is no more.
const PACKET_BYTES_MIN: usize = 21;
/// Set in packets of a handshake.
const LONG: u8 = 0x80;
/// Set in every packet; only what says which versions are spoken may leave it out.
const FIXED: u8 = 0x40;

/// One that counts.
#[derive(Debug)]
pub(super) struct Socket {
    /// Watched for what comes in.
    socket: AsyncFd<UdpSocket>,
    state: UdpSocketState,
    /// Whether the last packet found no room.
    full: AtomicBool,
    counters: Arc<NetCounters>,
}

impl Socket {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(socket: UdpSocket, counters: Arc<NetCounters>) -> io::Result<Self> {
        // This makes it one that does not block, too.
        let state = UdpSocketState::new((&socket).into())?;
        Ok(Self {
            socket: watch(socket, Interest::READABLE)?,
            state,
            full: AtomicBool::new(false),
            counters,
        })
    }

    fn count_others(&self, buffers: &[IoSliceMut<'_>], metas: &[RecvMeta]) {
        let filled = buffers.iter().zip(metas);
        let others = filled.map(|(buffer, meta)| others(&buffer[..meta.len], meta.stride));
        match others.sum() {
            0 => {}
            others => add(&self.counters.not_quic, others),
        }
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Room {
            socket: self,
            watched: None,
        })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.state.send(self.socket.get_ref().into(), transmit);
        if matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            self.full.store(true, Ordering::Relaxed);
        }
        sent
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(context))?;
            let socket = self.socket.get_ref();
            let received = self.state.recv(socket.into(), buffers, metas);
            match received {
                Ok(received) => {
                    // Fewer than there was room for: nothing is left to ask for. What comes from
                    // now on makes it ready again.
                    if received < buffers.len().min(BATCH_SIZE) {
                        ready.clear_ready();
                    }
                    self.count_others(buffers, &metas[..received]);
                    return Poll::Ready(Ok(received));
                }
                // That somebody could not be reached, which the links find out by themselves. It
                // came in the place of a packet: there may be more.
                Err(error) if is_of_a_peer(&error) => {}
                // Nothing is left; or what nobody expects, and no reason to ask again and again.
                Err(_) => ready.clear_ready(),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

fn is_of_a_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    let kinds = [
        ConnectionRefused,
        ConnectionReset,
        HostUnreachable,
        NetworkUnreachable,
    ];
    kinds.contains(&error.kind())
}

#[expect(
    deprecated,
    reason = "what replaces it is unsafe, for the sake of types whose descriptor changes or closes: \
              that of a socket does neither while it is owned"
)]
fn watch(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
    AsyncFd::with_interest(socket, interest)
}

/// Waits for room, where a packet found none.
#[derive(Debug)]
struct Room {
    socket: Arc<Socket>,
    /// The socket once more, watched for room until there is some.
    watched: Option<AsyncFd<UdpSocket>>,
}

impl UdpPoller for Room {
    fn poll_writable(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.socket.full.load(Ordering::Relaxed) {
            self.watched = None;
            return Poll::Ready(Ok(()));
        }
        let watched = match self.watched.take() {
            Some(watched) => watched,
            None => {
                let again = self.socket.socket.get_ref().try_clone()?;
                watch(again, Interest::WRITABLE)?
            }
        };
        if let Poll::Ready(room) = watched.poll_write_ready(context) {
            room?.retain_ready();
            self.socket.full.store(false, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        }
        self.watched = Some(watched);
        Poll::Pending
    }
}

/// How many of the datagrams in a buffer, each `stride` bytes long but the last, are no packets.
fn others(bytes: &[u8], stride: usize) -> usize {
    if bytes.is_empty() {
        return 1;
    }
    let datagrams = bytes.chunks(stride.max(1));
    datagrams.filter(|datagram| !is_packet(datagram)).count()
}

/// Whether a datagram begins as packets do. What belongs to no link may do so too.
fn is_packet(datagram: &[u8]) -> bool {
    match datagram {
        [first, a, b, c, d, ..] if first & LONG != 0 => {
            let version = u32::from_be_bytes([*a, *b, *c, *d]);
            let known = DEFAULT_SUPPORTED_VERSIONS.contains(&version);
            version == 0 || (known && first & FIXED != 0)
        }
        [first, ..] => first & (LONG | FIXED) == FIXED && datagram.len() >= PACKET_BYTES_MIN,
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::Ipv4Addr;

    use super::*;

    fn socket() -> Arc<Socket> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Arc::new(Socket::new(socket, Arc::default()).unwrap())
    }

    async fn receive(socket: &Socket) -> usize {
        let mut space = vec![[0; 64]; BATCH_SIZE];
        let mut buffers: Vec<_> = space.iter_mut().map(|s| IoSliceMut::new(s)).collect();
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let received = poll_fn(|context| socket.poll_recv(context, &mut buffers, &mut metas));
        let received = received.await.unwrap();
        let datagrams = metas[..received].iter();
        datagrams.map(|meta| meta.len.div_ceil(meta.stride)).sum()
    }

    #[tokio::test]
    async fn all_that_comes_is_received_however_much_there_is_at_once() {
        let socket = socket();
        let address = socket.local_addr().unwrap();
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for sent in [1, BATCH_SIZE, 1, 2 * BATCH_SIZE + 1, 3] {
            for _ in 0..sent {
                other.send_to(&[0x40; PACKET_BYTES_MIN], address).unwrap();
            }
            let mut received = 0;
            while received < sent {
                received += receive(&socket).await;
            }
            assert_eq!(received, sent);
        }
    }

    #[tokio::test]
    async fn who_found_no_room_is_woken_when_there_is_some() {
        let socket = socket();
        let mut pollers = [0; 2].map(|_| Arc::clone(&socket).create_io_poller());
        socket.full.store(true, Ordering::Relaxed);
        for poller in &mut pollers {
            poll_fn(|context| poller.as_mut().poll_writable(context))
                .await
                .unwrap();
            assert!(!socket.full.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn packets_are_told_from_what_is_none() {
        let long = |first: u8, version: u32| [&[first][..], &version.to_be_bytes()].concat();
        for (datagram, expect) in [
            (vec![], false),
            (vec![0x40; PACKET_BYTES_MIN - 1], false),
            (vec![0x40; PACKET_BYTES_MIN], true),
            (vec![0x3f; PACKET_BYTES_MIN], false),
            (long(0xc0, 1), true),
            (long(0xc0, 2), false),
            (long(0x80, 1), false),
            (long(0x80, 0), true),
            (vec![0xc0; 4], false),
            (b"GET / HTTP/1.1\r\n".to_vec(), false),
        ] {
            assert_eq!(is_packet(&datagram), expect, "{datagram:x?}");
        }
    }

    #[test]
    fn every_datagram_of_a_buffer_is_looked_at() {
        let packet = [0x40; PACKET_BYTES_MIN];
        let noise = [0; PACKET_BYTES_MIN];
        let all = [&packet[..], &noise, &packet, &noise[..3]].concat();
        assert_eq!(others(&all, PACKET_BYTES_MIN), 2);
        assert_eq!(others(&[], 0), 1);
    }
}
