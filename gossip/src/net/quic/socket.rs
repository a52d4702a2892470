//! The socket of all links, which counts what is no packet: QUIC drops that without a word.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};
use quinn_proto::DEFAULT_SUPPORTED_VERSIONS;

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
pub(super) struct CountingSocket {
    pub(super) inner: Arc<dyn AsyncUdpSocket>,
    pub(super) counters: Arc<NetCounters>,
}

impl AsyncUdpSocket for CountingSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = ready!(self.inner.poll_recv(context, buffers, metas))?;
        let filled = buffers.iter().zip(&*metas).take(received);
        let others = filled.map(|(buffer, meta)| others(&buffer[..meta.len], meta.stride));
        match others.sum() {
            0 => {}
            others => add(&self.counters.not_quic, others),
        }
        Poll::Ready(Ok(received))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

/// One without a port: nothing arrives, and nothing is sent.
#[derive(Debug)]
pub(super) struct Closed;

impl AsyncUdpSocket for Closed {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Self)
    }

    fn try_send(&self, _: &Transmit<'_>) -> io::Result<()> {
        // Lost, as a datagram may be.
        Ok(())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        _: &mut [IoSliceMut<'_>],
        _: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        // The endpoint asks again once it has another socket.
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, 0)))
    }
}

impl UdpPoller for Closed {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
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
    use super::*;

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
