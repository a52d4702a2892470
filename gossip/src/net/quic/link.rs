//! One connection in use: frames out, frames in.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use muster_model::time::Time;
use quinn::{Connection, ConnectionError, ReadToEndError, RecvStream};
use tokio::sync::{Mutex, Notify, Semaphore};
use tokio::time::Instant;

use super::config::{LINK_EVENTS_MAX, STREAMS_MAX};
use super::dial;
use super::event::{ConnectionRefusal, NetEvent, QueueSlot};
use super::hello::HELLO_BYTES_MAX;
use super::ordered::{self, Ordered, StreamOpening};
use super::peer::{QuicPeer, canonical};
use super::queue::SendQueue;
use super::request::{self, Underway};
use super::shared::{EndpointShared, close};
use crate::net::counters::{add, count};

/// Serves a connection till it is closed. `greeted`: there is no hello to come any more.
pub(super) async fn serve(
    shared: Arc<EndpointShared>,
    peer: Arc<QuicPeer>,
    (connection, underway): (Connection, Underway),
    greeted: bool,
) {
    let line = SenderContext {
        shared: &shared,
        peer: &peer,
        connection: &connection,
        waiting: Arc::new(Semaphore::new(LINK_EVENTS_MAX)),
        in_order: Mutex::default(),
    };
    peer.ring();
    // In this order they get what room there is: a document waits for what keeps order.
    let why = tokio::select! {
        biased;
        why = connection.closed() => why,
        why = line.send_datagrams() => why,
        why = line.send_ordered() => why,
        why = line.send_streams() => why,
        why = line.receive_datagrams() => why,
        why = request::receive(&shared, &peer, (&connection, &underway)) => why,
        why = line.receive_streams(greeted) => why,
    };
    line.end(&why);
}

/// What a connection's sender does next.
enum SenderStep {
    Send(Bytes),
    Wait,
    Over,
}

/// One connection and what it belongs to.
struct SenderContext<'a> {
    shared: &'a Arc<EndpointShared>,
    peer: &'a Arc<QuicPeer>,
    connection: &'a Connection,
    /// Bounds what this member may have waiting for the mesh.
    waiting: Arc<Semaphore>,
    /// Held by the one stream whose frames are handed over in order.
    in_order: Mutex<()>,
}

impl SenderContext<'_> {
    async fn send_datagrams(&self) -> ConnectionError {
        loop {
            let bytes = self.next(&self.peer.datagrams, SendQueue::datagram).await;
            let len = bytes.len();
            match self.connection.send_datagram_wait(bytes).await {
                Ok(()) => self.sent(len),
                Err(quinn::SendDatagramError::ConnectionLost(why)) => return why,
                Err(_) => count(&self.shared.counters.oversize_out),
            }
        }
    }

    async fn send_streams(&self) -> ConnectionError {
        loop {
            let bytes = self.next(&self.peer.streams, SendQueue::stream).await;
            match self.send_stream(&bytes).await {
                Ok(()) => self.sent(bytes.len()),
                // Closed while it was sent: what is left goes over the next link.
                Err(why) => return why,
            }
        }
    }

    async fn send_stream(&self, bytes: &[u8]) -> Result<(), ConnectionError> {
        let mut stream = self.connection.open_uni().await?;
        // A peer that stops a single stream does not want this frame; the link lives on.
        if let Err(quinn::WriteError::ConnectionLost(why)) = stream.write_all(bytes).await {
            return Err(why);
        }
        let _ = stream.finish();
        Ok(())
    }

    async fn send_ordered(&self) -> ConnectionError {
        let mut stream = Ordered::default();
        loop {
            let bytes = self.next(&self.peer.ordered, SendQueue::ordered).await;
            match stream.send(self.connection, &bytes).await {
                Ok(()) => self.sent(bytes.len()),
                Err(why) => return why,
            }
        }
    }

    /// Waits for something to send. A connection that lost its place takes nothing any more.
    async fn next(&self, bell: &Notify, take: fn(&mut SendQueue, Time) -> Option<Bytes>) -> Bytes {
        loop {
            match self.take(take) {
                SenderStep::Send(bytes) => return bytes,
                SenderStep::Wait => bell.notified().await,
                SenderStep::Over => {
                    // The bell may have rung for the one that has the place now.
                    bell.notify_one();
                    return std::future::pending().await;
                }
            }
        }
    }

    fn take(&self, take: fn(&mut SendQueue, Time) -> Option<Bytes>) -> SenderStep {
        let mut state = self.peer.state();
        if !state.is_link(self.connection) {
            return SenderStep::Over;
        }
        let bytes = take(&mut state.queue, self.shared.clock.now());
        let given = state.queue.given();
        drop(state);
        add(&self.shared.counters.queue_dropped, given.dropped);
        add(&self.shared.counters.stale_dropped, given.stale);
        bytes.map_or(SenderStep::Wait, SenderStep::Send)
    }

    fn sent(&self, len: usize) {
        count(&self.shared.counters.frames_out);
        add(&self.shared.counters.frame_bytes_out, len);
    }

    async fn receive_datagrams(&self) -> ConnectionError {
        loop {
            let bytes = match self.connection.read_datagram().await {
                Ok(bytes) => bytes,
                Err(why) => return why,
            };
            match Arc::clone(&self.waiting).try_acquire_owned() {
                Ok(permit) => self.deliver(bytes, QueueSlot(permit)),
                Err(_) => count(&self.shared.counters.receive_dropped),
            }
        }
    }

    /// A datagram that the mesh has no time for is lost, as datagrams are.
    fn deliver(&self, bytes: Bytes, ticket: QueueSlot) {
        let len = bytes.len();
        match self.shared.events.try_send(self.frame(bytes, ticket)) {
            Ok(()) => self.received(len),
            Err(_) => count(&self.shared.counters.receive_dropped),
        }
    }

    async fn receive_streams(&self, mut greeted: bool) -> ConnectionError {
        let mut reading = FuturesUnordered::new();
        loop {
            tokio::select! {
                stream = self.connection.accept_uni(), if reading.len() < STREAMS_MAX as usize => {
                    match stream {
                        Ok(stream) => reading.push(self.receive_stream(stream, greeted)),
                        Err(why) => return why,
                    }
                    greeted = true;
                }
                Some(()) = reading.next() => {}
            }
        }
    }

    async fn receive_stream(&self, mut stream: RecvStream, greeted: bool) {
        let received = if greeted {
            self.receive_frames(&mut stream).await
        } else {
            // The hello of somebody who is a member here already.
            stream.read_to_end(HELLO_BYTES_MAX).await.map(drop)
        };
        if let Err(ReadToEndError::TooLong) = received {
            count(&self.shared.counters.oversize_in);
            close(self.connection, ConnectionRefusal::Oversize);
        }
    }

    /// One frame, or many in their order.
    async fn receive_frames(&self, stream: &mut RecvStream) -> Result<(), ReadToEndError> {
        match ordered::opening(stream).await? {
            StreamOpening::Frame(start) => {
                let bytes = ordered::to_end(stream, start).await?;
                self.hand_over(bytes).await;
            }
            StreamOpening::Ordered => {
                // A stream that takes the place of a broken one waits till that one's frames are
                // handed over.
                let _turn = self.in_order.lock().await;
                while let Some(bytes) = ordered::next(stream).await? {
                    self.hand_over(bytes).await;
                }
            }
        }
        Ok(())
    }

    /// A stream waits for the mesh; its peer waits for the window.
    async fn hand_over(&self, bytes: Bytes) {
        let Ok(permit) = Arc::clone(&self.waiting).acquire_owned().await else {
            return;
        };
        let len = bytes.len();
        if self
            .shared
            .events
            .send(self.frame(bytes, QueueSlot(permit)))
            .await
            .is_ok()
        {
            self.received(len);
        }
    }

    fn frame(&self, bytes: Bytes, ticket: QueueSlot) -> NetEvent {
        NetEvent::Frame {
            from: self.peer.id,
            bytes,
            ticket,
        }
    }

    fn received(&self, len: usize) {
        count(&self.shared.counters.frames_in);
        add(&self.shared.counters.frame_bytes_in, len);
    }

    /// Both ends had dialed, about [`SIMULTANEOUS`](super::config::SIMULTANEOUS) apart, so that one
    /// took them for one meeting and the other did not: each gave up the link that the other kept.
    fn link_again(&self) {
        if self.peer.state().want(Instant::now()) {
            let (shared, peer) = (Arc::clone(self.shared), Arc::clone(self.peer));
            tokio::spawn(dial::run(shared, peer));
        }
    }

    fn end(&self, why: &ConnectionError) {
        let address = canonical(self.connection.remote_address());
        let code = match why {
            ConnectionError::ApplicationClosed(closed) => Some(closed.error_code.into_inner()),
            _ => None,
        };
        let refused = code.filter(|code| ConnectionRefusal::is_final(*code));
        if let Some(code) = refused {
            count(&self.shared.counters.refused_by_peer);
            self.shared
                .tell_refused(self.peer.key, address, ConnectionRefusal::Peer(code));
        }
        if self.peer.state().unlink(self.connection, refused.is_some()) {
            count(&self.shared.counters.link_closed);
            let member = self.peer.id;
            self.shared.tell(NetEvent::Disconnected { member });
            if code == Some(ConnectionRefusal::Duplicate.code().into()) {
                self.link_again();
            }
        }
    }
}
