//! Crowds of connections, through real sockets: none may hold up another address, nor a probe.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::setup::*;
use crate::config::GatewayConfig;
use crate::peer::RemoteEnd;
use crate::server::Listener;
use crate::slots::{Bounds, Slots};

/// Connections of the crowd: as many as there are slots in all by default.
pub(super) const CROWD: usize = 1024;
/// A probe is answered in less, whatever others do.
pub(super) const SOON: Duration = Duration::from_secs(5);
/// One machine's address, and another's.
pub(super) const HERE: Ipv4Addr = Ipv4Addr::new(127, 9, 0, 1);
pub(super) const THERE: Ipv4Addr = Ipv4Addr::new(127, 9, 0, 2);

/// Takes 127.x.y.z for 10.x.y.z, so that one machine can play several.
struct Foreign(TcpListener);

impl Listener for Foreign {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, RemoteEnd)> {
        let (stream, address) = self.0.accept().await?;
        let IpAddr::V4(address) = address.ip() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let [_, rest @ ..] = address.octets();
        Ok((
            stream,
            RemoteEnd::Tcp([10, rest[0], rest[1], rest[2]].into()),
        ))
    }
}

pub(super) struct Served {
    address: SocketAddr,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
    setup: Setup,
}

pub(super) async fn serve(config: GatewayConfig) -> Served {
    let limits = &config.limits;
    let bounds = Bounds {
        total: limits.connections.get() as usize,
        per_address: limits.connections_per_address.get() as usize,
    };
    let reserve = crate::server::RESERVE;
    let setup = Setup::with(config);
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn({
        let (gateway, shutdown) = (setup.gateway.clone(), shutdown.clone());
        let slots = Slots::new(bounds, reserve);
        async move { gateway.serve(Foreign(listener), slots, shutdown).await }
    });
    Served {
        address,
        shutdown,
        server,
        setup,
    }
}

impl Served {
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// So many connections that each say `text`.
    pub(super) async fn crowd(&self, count: usize, text: &str) -> Vec<TcpStream> {
        let mut crowd = Vec::new();
        for _ in 0..count {
            let mut stream = self.connect(HERE).await;
            // The server may have closed it for a newer one.
            let _ = stream.write_all(text.as_bytes()).await;
            crowd.push(stream);
        }
        crowd
    }

    /// The head of the answer to one request on a connection of its own.
    async fn get(&self, from: Ipv4Addr, path: &str) -> String {
        let mut stream = self.connect(from).await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {ANN}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = timeout(SOON, stream.read(&mut answer)).await;
        let read = read.expect("no answer in time").unwrap_or(0);
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        timeout(SOON, self.server).await.unwrap().unwrap();
    }
}

fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200")
}

/// How many connections the server has closed.
pub(super) async fn closed(crowd: &mut [TcpStream]) -> usize {
    let mut closed = 0;
    for stream in crowd {
        let mut rest = vec![0; 4096];
        loop {
            match timeout(Duration::from_millis(1), stream.read(&mut rest)).await {
                Ok(Ok(0) | Err(_)) => break closed += 1,
                Ok(Ok(_)) => {}
                Err(_) => break,
            }
        }
    }
    closed
}

async fn holds_nobody_up(text: &str) {
    let mut config = config();
    // What is left is the number of connections.
    config.rates.api_per_minute = NonZeroU32::MAX;
    config.limits.shutdown_grace = Duration::from_millis(50);
    let per_address = config.limits.connections_per_address.get() as usize;
    let served = serve(config).await;
    let mut crowd = served.crowd(CROWD, text).await;
    for from in [THERE, HERE] {
        let began = Instant::now();
        assert!(is_ok(&served.get(from, "/healthz").await), "{from}");
        assert!(is_ok(&served.get(from, "/api/v2/jobs").await), "{from}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
    let gone = closed(&mut crowd).await;
    assert!(gone >= CROWD - per_address, "only {gone} were closed");
    served.stop().await;
}

#[tokio::test]
async fn silent_connections_hold_nobody_up() {
    holds_nobody_up("").await;
}

#[tokio::test]
async fn half_heads_hold_nobody_up() {
    holds_nobody_up("GET /healthz HTTP/1.1\r\nhost:").await;
}

#[tokio::test]
async fn half_prefaces_of_http2_hold_nobody_up() {
    holds_nobody_up("PRI * HTTP/2.0\r\n").await;
}

#[tokio::test]
async fn half_bodies_hold_nobody_up() {
    let head = "POST /api/v2/tokens HTTP/1.1\r\nhost: x\r\ncontent-length: 99\r\n\r\n{";
    holds_nobody_up(head).await;
}

#[tokio::test]
async fn connections_that_only_ask_for_health_hold_nobody_up() {
    holds_nobody_up("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
}

#[tokio::test]
async fn where_all_of_an_address_are_at_work_it_is_told_so_and_probes_are_answered() {
    let mut config = config();
    config.limits.connections_per_address = NonZeroU32::MIN.saturating_add(1);
    config.limits.shutdown_grace = Duration::from_millis(50);
    let served = serve(config).await;
    let running = muster_model::state::SubState::AttemptRunning;
    served.setup.fake.put(placed("ann~job", running));
    let wait = format!(
        "GET /api/muster/v1/jobs/ann~job/wait?timeout_ms=60000 HTTP/1.1\r\nhost: x\r\n\
         authorization: {ANN}\r\n\r\n"
    );
    let mut waiting = served.crowd(2, &wait).await;
    // Both are at work once the third is in the reserve.
    let is_full = |answer: &str| answer.contains("TooManyConnectionsError");
    while !is_full(&served.get(HERE, "/api/v2/info").await) {
        assert_eq!(closed(&mut waiting).await, 0);
    }
    assert!(is_ok(&served.get(HERE, "/healthz").await));
    let answer = served.get(HERE, "/api/v2/info").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 5"), "{answer}");
    assert!(is_ok(&served.get(THERE, "/api/v2/info").await));
    assert_eq!(closed(&mut waiting).await, 0);
    served.stop().await;
}

#[tokio::test]
async fn a_request_refused_for_the_rate_does_not_keep_a_connection() {
    let mut config = config();
    config.limits.idle_timeout = Duration::from_millis(600);
    config.limits.shutdown_grace = Duration::from_millis(50);
    config.rates.api_per_minute = NonZeroU32::MIN;
    let served = serve(config).await;
    let mut stream = served.connect(HERE).await;
    let began = Instant::now();
    let mut refused = 0;
    let mut answer = vec![0; 4096];
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    while began.elapsed() < SOON {
        if stream.write_all(request).await.is_err() {
            break;
        }
        match timeout(SOON, stream.read(&mut answer)).await.unwrap() {
            Ok(0) | Err(_) => break,
            Ok(_) => refused += u32::from(answer.starts_with(b"HTTP/1.1 429")),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(refused > 0);
    assert!(
        began.elapsed() < SOON,
        "kept for {refused} refused requests"
    );
    served.stop().await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_before_an_idle_one() {
    let mut config = config();
    config.limits.first_byte_timeout = Duration::from_millis(100);
    config.limits.head_timeout = Duration::from_millis(400);
    config.limits.shutdown_grace = Duration::from_millis(50);
    let served = serve(config).await;
    for (text, least) in [("", 100), ("GET /healthz HT", 400), ("PRI * HT", 400)] {
        let began = Instant::now();
        let mut crowd = served.crowd(1, text).await;
        let mut answer = String::new();
        let ended = timeout(SOON, crowd[0].read_to_string(&mut answer)).await;
        assert!(ended.is_ok(), "{text:?} was kept");
        assert!(
            began.elapsed() >= Duration::from_millis(least),
            "{text:?}: {:?}",
            began.elapsed()
        );
    }
    served.stop().await;
}
