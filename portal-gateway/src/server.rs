//! Accept loops: connections, their bounds and their end. warp's own server can be given neither
//! a peer address nor a bound, so only its filter is used.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::{HOST, STRICT_TRANSPORT_SECURITY};
use http::uri::Authority;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use muster_tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use warp::reply::Response;

use crate::activity::{Receiving, TrackedBody};
use crate::config::{ClientLimits, GatewayConfig};
use crate::error::ApiError;
use crate::gateway::{self, Gateway};
use crate::host_names::HostNames;
use crate::peer::RemoteEnd;
use crate::reply::{HttpReply, ascii};
use crate::route;
use crate::slots::{Bounds, Slot, SlotKind, Slots};

/// Pause after a failed accept: the process is out of files or memory, which takes a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Requests at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 64;
/// How often a silent HTTP/2 connection is asked whether it is alive.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Slots beside the others, for who asks whether the server lives while all others are in use.
pub(crate) const RESERVE: Bounds = Bounds {
    total: 32,
    per_address: 4,
};

impl Gateway {
    /// Answers on a TCP listener until `shutdown`, then gives requests under way
    /// [`ClientLimits::shutdown_grace`] to end.
    pub async fn serve_tcp(&self, listener: TcpListener, shutdown: CancellationToken) {
        let limits = &self.config().limits;
        let bounds = Bounds {
            total: limits.connections.get() as usize,
            per_address: limits.connections_per_address.get() as usize,
        };
        self.serve(listener, Slots::new(bounds, RESERVE), shutdown)
            .await;
    }

    /// Answers on the agent's socket likewise. Whoever can open it has every right, so the
    /// caller makes it accessible to root alone.
    pub async fn serve_unix(&self, listener: UnixListener, shutdown: CancellationToken) {
        let total = self.config().limits.socket_connections.get() as usize;
        let bounds = Bounds {
            total,
            per_address: total,
        };
        self.serve(listener, Slots::new(bounds, RESERVE), shutdown)
            .await;
    }

    pub(crate) async fn serve<L: Listener>(
        &self,
        listener: L,
        slots: Arc<Slots>,
        shutdown: CancellationToken,
    ) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                Some(ended) = connections.join_next() => {
                    log_panic(ended);
                    continue;
                }
                accepted = listener.next() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.not_accepted(&error).await;
                    continue;
                }
            };
            let Some(slot) = slots.admit(peer.address(), Instant::now()) else {
                self.turned_away(peer);
                continue;
            };
            let gateway = self.clone();
            let shutdown = shutdown.clone();
            connections.spawn(async move {
                gateway.connection(stream, peer, slot, shutdown).await;
            });
        }
        drop(listener);
        while let Some(ended) = connections.join_next().await {
            log_panic(ended);
        }
    }

    async fn not_accepted(&self, error: &io::Error) {
        if let Some(count) = self.tally().count("accept", Instant::now()) {
            tracing::warn!(%error, count, "could not accept a connection");
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }

    fn turned_away(&self, peer: RemoteEnd) {
        if let Some(count) = self.tally().count("slots", Instant::now()) {
            tracing::warn!(
                ?peer,
                count,
                "turned away a connection: all its address may have are at work"
            );
        }
    }

    async fn connection<S: Stream>(
        &self,
        stream: S,
        peer: RemoteEnd,
        slot: Slot,
        shutdown: CancellationToken,
    ) {
        let spoken = tokio::select! {
            spoken = self.greeted(stream, peer) => spoken,
            () = slot.cut.cancelled() => return,
            () = shutdown.cancelled() => return,
        };
        match spoken {
            Ok(Spoken::Plain(stream)) => {
                let manner = Manner {
                    refusal: self.refusal(peer, &slot),
                    tls: None,
                };
                self.talk(stream, peer, (&slot, manner), shutdown).await;
            }
            Ok(Spoken::Tls(stream, tls)) => {
                let refusal = (slot.standing == SlotKind::Reserve).then_some(ServerRefusal::Full);
                let manner = Manner {
                    refusal,
                    tls: Some(tls),
                };
                self.talk(stream, peer, (&slot, manner), shutdown).await;
            }
            Err(error) => tracing::debug!(?peer, %error, "connection ended"),
        }
    }

    /// Waits for the first byte, and for the handshake where the client begins one.
    async fn greeted<S: Stream>(&self, stream: S, peer: RemoteEnd) -> io::Result<Spoken<S>> {
        let GatewayConfig { limits, tls, .. } = self.config();
        let first = timeout(limits.first_byte_timeout, stream.first_byte()).await??;
        let Some(tls) = tls
            .as_ref()
            .filter(|_| first == Some(muster_tls::FIRST_BYTE))
        else {
            return Ok(Spoken::Plain(stream));
        };
        let tls = tls.now();
        let accepted = timeout(limits.head_timeout, muster_tls::accept(&tls, stream)).await;
        let accepted = accepted??;
        tracing::trace!(?peer, "a connection by TLS");
        Ok(Spoken::Tls(Box::new(accepted), tls))
    }

    /// What a connection in clear is not answered for.
    fn refusal(&self, peer: RemoteEnd, slot: &Slot) -> Option<ServerRefusal> {
        let config = self.config();
        let may_be_plain = match peer {
            RemoteEnd::Socket => true,
            RemoteEnd::Tcp(_) => config.tls.is_none() || config.plain_loopback && peer.is_here(),
        };
        if !may_be_plain {
            Some(ServerRefusal::Plain)
        } else {
            (slot.standing == SlotKind::Reserve).then_some(ServerRefusal::Full)
        }
    }

    async fn talk<S>(
        &self,
        stream: S,
        peer: RemoteEnd,
        (slot, manner): (&Slot, Manner),
        shutdown: CancellationToken,
    ) where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let GatewayConfig {
            limits, host_names, ..
        } = self.config();
        let Manner { refusal, tls } = manner;
        let certificate = tls.as_ref().map(|tls| tls.fingerprint);
        let strict = tls.as_ref().and_then(strict_transport);
        let answers = warp::service(self.filter());
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            let turn = slot.activity.begin();
            name_host(&mut request);
            let refused = refusal.and_then(|refusal| refusal.of(&request, host_names));
            let refused = refused.map(gateway::response);
            let (mut answers, strict) = (answers.clone(), strict.clone());
            request.extensions_mut().insert(peer);
            if let Some(certificate) = certificate {
                request.extensions_mut().insert(certificate);
            }
            let request = request.map(|body| Receiving {
                body,
                turn: Arc::clone(&turn),
            });
            async move {
                let mut response: Response = match refused {
                    Some(response) => response,
                    None => answers.call(request).await?,
                };
                if let Some(strict) = strict {
                    let headers = response.headers_mut();
                    headers.insert(STRICT_TRANSPORT_SECURITY, strict);
                }
                if response.status() == http::StatusCode::TOO_MANY_REQUESTS {
                    turn.refuse();
                }
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, turn)))
            }
        });
        let builder = builder(limits, refusal.is_none());
        let mut connection =
            pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let why = tokio::select! {
            result = connection.as_mut() => return log_end(peer, result),
            () = slot.cut.cancelled() => {
                tracing::debug!(?peer, "closing an idle connection for another one");
                return;
            }
            () = shutdown.cancelled() => "shutdown",
            () = slot.activity.overdue(limits.head_timeout, limits.idle_timeout) => "idle",
        };
        tracing::debug!(?peer, why, "closing a connection");
        connection.as_mut().graceful_shutdown();
        match timeout(limits.shutdown_grace, connection).await {
            Ok(result) => log_end(peer, result),
            Err(_) => tracing::debug!(?peer, "cut off a connection"),
        }
    }
}

/// A connection, once the client has said in which manner it speaks.
enum Spoken<S> {
    Plain(S),
    /// With what it was shown.
    Tls(Box<TlsStream<S>>, Tls),
}

/// How requests of a connection are answered.
struct Manner {
    /// Why they are not, if so.
    refusal: Option<ServerRefusal>,
    /// What the client was shown; none in clear.
    tls: Option<Tls>,
}

/// Why requests of a connection are not answered.
#[derive(Clone, Copy)]
enum ServerRefusal {
    /// All slots are in use but those of the reserve.
    Full,
    /// They come in clear from another machine.
    Plain,
}

impl ServerRefusal {
    /// The answer to a request; none if it is answered all the same.
    fn of<B>(self, request: &hyper::Request<B>, names: &HostNames) -> Option<HttpReply> {
        match self {
            Self::Full => (!is_probe(request)).then(|| HttpReply::failure(&ApiError::Full)),
            Self::Plain => {
                let sent_on = secure_place(request, names).map(HttpReply::temporary_redirect);
                Some(sent_on.unwrap_or_else(|| HttpReply::failure(&ApiError::Plain)))
            }
        }
    }
}

/// Puts the name that the client asked for into `Host`, where all that goes by it looks: forms, web tools, names of this
/// machine. HTTP/2 has it in the target alone; a target of HTTP/1.1 that has one outranks the header (RFC 9112, 3.2.2).
fn name_host<B>(request: &mut hyper::Request<B>) {
    let authority = request.uri().authority().map(Authority::as_str);
    let host = authority.and_then(|authority| authority.rsplit('@').next());
    let host = host.and_then(|host| HeaderValue::from_str(host).ok());
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host);
    }
}

/// Where the page is that a browser asks for in clear; none for what is no page, or where the
/// request names another machine.
fn secure_place<B>(request: &hyper::Request<B>, names: &HostNames) -> Option<HeaderValue> {
    let (route, _) = route::find(request.method(), request.uri().path()).ok()?;
    let host = request.headers().get(HOST)?.to_str().ok()?;
    let authority: Authority = host.parse().ok()?;
    // `user@host` is no way to write where a request goes to.
    if !route.is_page() || host.contains('@') || !names.has(authority.as_str()) {
        return None;
    }
    let path = request.uri().path_and_query()?;
    HeaderValue::from_str(&format!("https://{authority}{path}")).ok()
}

fn strict_transport(tls: &Tls) -> Option<HeaderValue> {
    let seconds = tls.strict_transport_s;
    (seconds > 0).then(|| ascii(format!("max-age={seconds}")))
}

/// Whether a request asks no more than whether the server lives.
fn is_probe<B>(request: &hyper::Request<B>) -> bool {
    let path = request.uri().path();
    path.trim_end_matches('/').eq_ignore_ascii_case("/healthz")
}

fn builder(limits: &ClientLimits, is_kept: bool) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .keep_alive(is_kept)
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

fn log_end(peer: RemoteEnd, result: ConnectionResult) {
    if let Err(error) = result {
        tracing::debug!(?peer, %error, "connection ended");
    }
}

/// What the two kinds of connections have in common.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {
    /// Waits until the client has said something, and looks at the first byte of it without reading
    /// it, where that can be done; none at the end.
    fn first_byte(&self) -> impl Future<Output = io::Result<Option<u8>>> + Send;
}

impl Stream for TcpStream {
    async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let read = self.peek(&mut byte).await?;
        Ok((read > 0).then_some(byte[0]))
    }
}

impl Stream for UnixStream {
    async fn first_byte(&self) -> io::Result<Option<u8>> {
        self.readable().await?;
        Ok(None)
    }
}

/// What the two kinds of listeners have in common.
pub(crate) trait Listener: Send + Sync + 'static {
    type Stream: Stream;

    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, RemoteEnd)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, RemoteEnd)> {
        let (stream, address) = self.accept().await?;
        // A client that is gone already is no failure to accept.
        let _ = stream.set_nodelay(true);
        let own = stream.local_addr().ok().map(|own| own.ip());
        Ok((stream, RemoteEnd::between(own, address.ip())))
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, RemoteEnd)> {
        let (stream, _) = self.accept().await?;
        Ok((stream, RemoteEnd::Socket))
    }
}
