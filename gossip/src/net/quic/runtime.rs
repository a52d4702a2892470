//! tokio, as the links use it: with a socket that counts, and timers that wake for nothing less
//! often. At rest, what a packet costs is above all how often the thread is woken for it.

use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::time::{Sleep, sleep_until};

use super::socket::CountingSocket;
use crate::net::NetCounters;

/// tokio, with sockets that count.
#[derive(Debug)]
pub(super) struct CountingRuntime(pub(super) Arc<NetCounters>);

impl Runtime for CountingRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Alarm(Box::pin(sleep_until(at.into()))))
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Ok(Arc::new(CountingSocket {
            inner: TokioRuntime.wrap_udp_socket(socket)?,
            counters: Arc::clone(&self.0),
        }))
    }

    fn now(&self) -> Instant {
        TokioRuntime.now()
    }
}

/// A link's timer. It is put off with nearly every packet, and a `Sleep` that is put off still
/// wakes its thread at the old time: so it is dropped and made anew.
#[derive(Debug)]
struct Alarm(Pin<Box<Sleep>>);

impl AsyncTimer for Alarm {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.set(sleep_until(at.into()));
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        Future::poll(self.0.as_mut(), context)
    }
}
