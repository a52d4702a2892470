//! Through real listeners, spoken to byte by byte.

use std::num::NonZeroU32;
use std::time::Duration;

use http_body_util::BodyExt as _;
use muster_model::state::SubState;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::setup::*;
use crate::config::GatewayConfig;

/// No test waits longer, whatever breaks.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct Served {
    pub(super) setup: Setup,
    port: u16,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

pub(super) async fn serve(config: GatewayConfig) -> Served {
    let setup = Setup::with(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn({
        let (gateway, shutdown) = (setup.gateway.clone(), shutdown.clone());
        async move { gateway.serve_tcp(listener, shutdown).await }
    });
    Served {
        setup,
        port,
        shutdown,
        server,
    }
}

impl Served {
    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    /// Shuts down; the accept loop and every connection must end.
    pub(super) async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, self.server)
            .await
            .unwrap()
            .unwrap();
    }
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}

/// Reads until the text holds `end`.
async fn hear(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let mut text = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&text).contains(end) {
            assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0, "closed early");
        }
    };
    let heard = tokio::time::timeout(PATIENCE, reading).await;
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(heard.is_ok(), "heard only {text:?}");
    text
}

/// Reads to the end of the connection.
pub(super) async fn hear_out(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let reading = stream.read_to_end(&mut text);
    // A reset is an end too.
    let _ = tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("never closed");
    String::from_utf8_lossy(&text).into_owned()
}

fn get(path: &str, more: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {ANN}\r\n{more}\r\n")
}

#[tokio::test]
async fn tcp_and_http2_are_answered() {
    let served = serve(config()).await;
    let mut stream = served.connect().await;
    for _ in 0..2 {
        say(&mut stream, &get("/api/v2/", "")).await;
        let text = hear(&mut stream, "(beta version)").await;
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        assert!(text.contains("content-length: 33"), "{text}");
    }
    let io = hyper_util::rt::TokioIo::new(served.connect().await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, String>(executor, io)
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::get("http://x/healthz")
        .body(String::new())
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    drop(sender);
    served.stop().await;
    let _ = connection.await.unwrap();
}

/// Browsers speak HTTP/2 over TLS, in which the host is a part of the target.
#[tokio::test]
async fn forms_and_web_tools_are_used_over_http2() {
    let served = serve(config()).await;
    let job = placed("ann~job", SubState::AttemptRunning);
    served.setup.fake.put(job);
    let io = hyper_util::rt::TokioIo::new(served.connect().await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, String>(executor, io)
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let mut login = async |origin: &str| {
        let request = http::Request::post("https://localhost:7741/login")
            .header("origin", origin)
            .header("content-type", "application/x-www-form-urlencoded")
            .body("user=ann&password=ann-password".to_owned())
            .unwrap();
        sender.send_request(request).await.unwrap()
    };
    assert_eq!(login("https://localhost:7741").await.status(), 303);
    for foreign in ["https://localhost:8000", "https://elsewhere", "null"] {
        assert_eq!(login(foreign).await.status(), 403, "{foreign}");
    }
    // A page of elsewhere whose own name leads here.
    let page = http::Request::get("https://evil.example:7741/login");
    let page = page.body(String::new()).unwrap();
    assert_eq!(sender.send_request(page).await.unwrap().status(), 403);
    let tool = http::Request::get("https://localhost:7741/proxy/ann~job/6006/x")
        .header("cookie", "muster_session=ann-token")
        .header("origin", "https://localhost:7741")
        .body(String::new())
        .unwrap();
    let answer = sender.send_request(tool).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).to_ascii_lowercase();
    assert!(body.contains("host: localhost:7741\r\n"), "{body}");
    drop(sender);
    served.stop().await;
    let _ = connection.await.unwrap();
}

#[tokio::test]
async fn the_unix_socket_needs_no_login() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let setup = Setup::new();
    let shutdown = CancellationToken::new();
    let listener = UnixListener::bind(&path).unwrap();
    let server = setup.gateway.serve_unix(listener, shutdown.clone());
    let client = async {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        say(
            &mut stream,
            "GET /api/muster/v1/node HTTP/1.1\r\nhost: x\r\n\r\n",
        )
        .await;
        let text = hear(&mut stream, "containerd 1.6.20").await;
        assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
        shutdown.cancel();
        hear_out(&mut stream).await;
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(server, client) })
        .await
        .unwrap();
}

#[tokio::test]
async fn progress_is_sent_as_it_comes_and_uploads_are_streamed() {
    let served = serve(config()).await;
    let mut stream = served.connect().await;
    let head = format!(
        "POST /api/muster/v1/images/import HTTP/1.1\r\nhost: x\r\nauthorization: {ADMIN}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    say(&mut stream, &head).await;
    say(&mut stream, "5\r\nhello\r\n").await;
    say(&mut stream, "0\r\n\r\n").await;
    let text = hear(&mut stream, "\"ready\"").await;
    assert!(text.contains("transfer-encoding: chunked"), "{text}");
    assert!(text.contains("\"size_bytes\":5"), "{text}");
    served.stop().await;
}

#[tokio::test]
async fn a_long_head_is_refused_and_a_body_of_unknown_length_is_bounded() {
    let mut config = config();
    config.limits.head_bytes = 8192;
    let served = serve(config).await;
    let mut stream = served.connect().await;
    say(
        &mut stream,
        &get("/healthz", &format!("x: {}\r\n", "y".repeat(9000))),
    )
    .await;
    let text = hear_out(&mut stream).await;
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");

    let mut stream = served.connect().await;
    let head = format!(
        "POST /api/v2/jobs HTTP/1.1\r\nhost: x\r\nauthorization: {ANN}\r\n\
         transfer-encoding: chunked\r\n\r\n"
    );
    say(&mut stream, &head).await;
    let chunk = format!("{:x}\r\n{}\r\n", 600 * 1024, "x".repeat(600 * 1024));
    say(&mut stream, &chunk).await;
    // The server may close while this is under way.
    let _ = stream.write_all(chunk.as_bytes()).await;
    let text = hear(&mut stream, "request entity too large").await;
    assert!(text.starts_with("HTTP/1.1 413"), "{text}");
    served.stop().await;
}

#[tokio::test]
async fn idle_and_silent_connections_are_closed() {
    let mut config = config();
    config.limits.idle_timeout = Duration::from_millis(300);
    config.limits.first_byte_timeout = Duration::from_millis(300);
    config.limits.shutdown_grace = Duration::from_millis(50);
    let served = serve(config).await;
    let mut silent = served.connect().await;
    let mut used = served.connect().await;
    say(&mut used, &get("/healthz", "")).await;
    hear(&mut used, "ok").await;
    assert_eq!(hear_out(&mut silent).await, "");
    assert_eq!(hear_out(&mut used).await, "");
    served.stop().await;
}

#[tokio::test]
async fn a_request_under_way_keeps_its_connection() {
    let mut config = config();
    config.limits.idle_timeout = Duration::from_millis(300);
    config.limits.shutdown_grace = Duration::from_millis(20);
    let served = serve(config).await;
    let running = muster_model::state::SubState::AttemptRunning;
    served.setup.fake.put(placed("ann~job", running));
    let mut stream = served.connect().await;
    let path = "/api/muster/v1/jobs/ann~job/wait?timeout_ms=1000";
    say(&mut stream, &get(path, "")).await;
    let text = hear(&mut stream, "RUNNING").await;
    assert!(text.starts_with("HTTP/1.1 200 OK"), "{text}");
    served.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_given_up() {
    let mut config = config();
    config.limits.read_timeout = Duration::from_millis(300);
    let served = serve(config).await;
    let mut stream = served.connect().await;
    let head = format!(
        "POST /api/v2/jobs HTTP/1.1\r\nhost: x\r\nauthorization: {ANN}\r\n\
         content-length: 9\r\n\r\nname:"
    );
    say(&mut stream, &head).await;
    let text = hear(&mut stream, "did not arrive in time").await;
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    served.stop().await;
}

#[tokio::test]
async fn beyond_the_bound_the_idle_connection_goes() {
    let mut config = config();
    config.limits.connections = NonZeroU32::MIN;
    let served = serve(config).await;
    let mut first = served.connect().await;
    say(&mut first, &get("/healthz", "")).await;
    hear(&mut first, "ok").await;
    let mut second = served.connect().await;
    say(&mut second, &get("/healthz", "")).await;
    hear(&mut second, "ok").await;
    assert_eq!(hear_out(&mut first).await, "");
    served.stop().await;
}

#[tokio::test]
async fn a_shutdown_lets_a_request_end_and_cuts_off_what_stays() {
    let mut config = config();
    config.limits.shutdown_grace = Duration::from_millis(100);
    let served = serve(config).await;
    let running = muster_model::state::SubState::AttemptRunning;
    served.setup.fake.put(placed("ann~job", running));
    let mut ends = served.connect().await;
    let mut stays = served.connect().await;
    // Both requests are answered once before, so that both connections are known to be open.
    for stream in [&mut ends, &mut stays] {
        say(stream, &get("/healthz", "")).await;
        hear(stream, "ok").await;
    }
    say(
        &mut stays,
        &get("/api/muster/v1/jobs/ann~job/wait?timeout_ms=60000", ""),
    )
    .await;
    served.stop().await;
    assert_eq!(hear_out(&mut ends).await, "");
    assert_eq!(hear_out(&mut stays).await, "");
}
