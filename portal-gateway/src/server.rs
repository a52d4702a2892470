//! Accept loops: connections, their bounds and their end. warp's own server can be given neither
//! a peer address nor a bound, so only its filter is used.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::num::NonZeroU32;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::config::Limits;
use crate::gateway::Gateway;
use crate::peer::Peer;

/// Pause after a failed accept: the process is out of files or memory, which takes a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 64;
/// How often a silent HTTP/2 connection is asked whether it is alive.
const PING_INTERVAL: Duration = Duration::from_secs(20);

impl Gateway {
    /// Answers on a TCP listener until `shutdown`, then gives requests under way
    /// [`Limits::shutdown_grace`] to end.
    pub async fn serve_tcp(&self, listener: TcpListener, shutdown: CancellationToken) {
        let slots = self.config().limits.tcp_connections;
        self.serve(listener, slots, shutdown).await;
    }

    /// Answers on the agent's socket likewise. Whoever can open it has every right, so the
    /// caller makes it accessible to root alone.
    pub async fn serve_unix(&self, listener: UnixListener, shutdown: CancellationToken) {
        let slots = self.config().limits.socket_connections;
        self.serve(listener, slots, shutdown).await;
    }

    async fn serve<L: Listener>(
        &self,
        listener: L,
        slots: NonZeroU32,
        shutdown: CancellationToken,
    ) {
        let slots = Arc::new(Semaphore::new(slots.get() as usize));
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = next(&listener, &slots) => accepted,
            };
            let Some((stream, peer, slot)) = accepted else {
                continue;
            };
            let gateway = self.clone();
            let shutdown = shutdown.clone();
            connections.spawn(async move {
                gateway.connection(stream, peer, shutdown).await;
                drop(slot);
            });
        }
        drop(listener);
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    }

    async fn connection<S>(&self, stream: S, peer: Peer, shutdown: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let limits = &self.config().limits;
        let activity = Activity::default();
        let answers = warp::service(self.filter());
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            let busy = activity.begin();
            let mut answers = answers.clone();
            request.extensions_mut().insert(peer);
            async move {
                let response = answers.call(request).await?;
                let body = response.map(|body| Sending { body, _busy: busy });
                Ok::<_, Infallible>(body)
            }
        });
        let builder = builder(limits);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut idle =
            tokio::time::interval_at(Instant::now() + limits.idle_timeout, limits.idle_timeout);
        let why = loop {
            tokio::select! {
                result = connection.as_mut() => return log_end(peer, result),
                () = shutdown.cancelled() => break "shutdown",
                _ = idle.tick() => if !activity.seen() { break "idle" },
            }
        };
        tracing::debug!(?peer, why, "closing a connection");
        connection.as_mut().graceful_shutdown();
        match tokio::time::timeout(limits.shutdown_grace, connection).await {
            Ok(result) => log_end(peer, result),
            Err(_) => tracing::debug!(?peer, "cut off a connection"),
        }
    }
}

fn builder(limits: &Limits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.read_timeout)
        .max_buf_size(limits.head_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(limits.read_timeout);
    builder
}

/// A panic ends its own connection alone, and must not pass unseen.
fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

type ConnectionResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn log_end(peer: Peer, result: ConnectionResult) {
    if let Err(error) = result {
        tracing::debug!(?peer, %error, "connection ended");
    }
}

/// Whether a connection is used. Clones of `requests` live as long as their requests.
#[derive(Default)]
struct Activity {
    requests: Arc<()>,
    begun: AtomicBool,
}

impl Activity {
    fn begin(&self) -> Arc<()> {
        self.begun.store(true, Ordering::Relaxed);
        self.requests.clone()
    }

    /// Whether a request is under way or has begun since the last question.
    fn seen(&self) -> bool {
        let begun = self.begun.swap(false, Ordering::Relaxed);
        begun || Arc::strong_count(&self.requests) > 1
    }
}

/// A body that keeps its connection busy until it is sent or given up. It keeps the length too,
/// or short answers would go out in chunks.
struct Sending<B> {
    body: B,
    _busy: Arc<()>,
}

impl<B: Body + Unpin> Body for Sending<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What the two kinds of listeners have in common.
trait Listener: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = self.accept().await?;
        stream.set_nodelay(true)?;
        Ok((stream, Peer::Tcp(address.ip())))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, Peer::Socket))
    }
}

type Slot = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is a slot for it.
async fn next<L: Listener>(
    listener: &L,
    slots: &Arc<Semaphore>,
) -> Option<(L::Stream, Peer, Slot)> {
    let slot = slots.clone().acquire_owned().await.ok()?;
    match listener.next().await {
        Ok((stream, peer)) => Some((stream, peer, slot)),
        Err(error) => {
            tracing::warn!(%error, "could not accept a connection");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
