//! Sessions in tasks over real connections: WebSockets of commands and ports, and web tools.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use muster_model::session::{SUBPROTOCOL, SessionEnd};
use muster_model::state::SubState;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::serving::{Served, serve};
use super::setup::*;

const EXEC: &str = "/api/muster/v1/jobs/ann~job/tasks/worker/0/exec?stdin=true&command=cat";
const PORT: &str = "/api/muster/v1/jobs/ann~job/tasks/worker/0/ports/8888";

pub(super) type TestSocket = WebSocketStream<TcpStream>;

pub(super) async fn served() -> Served {
    let served = serve(config()).await;
    let fake = &served.setup.fake;
    fake.put(placed("ann~job", SubState::AttemptRunning));
    fake.put(placed("ann~waits", SubState::AttemptPreparing));
    fake.put(placed("admin~job", SubState::AttemptRunning));
    served
}

/// A WebSocket, or the status and the body of the refusal.
async fn open(
    served: &Served,
    token: &str,
    path: &str,
    protocol: Option<&'static str>,
) -> Result<TestSocket, (u16, String)> {
    let url = format!("ws://127.0.0.1{path}");
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("authorization", token.parse().unwrap());
    if let Some(protocol) = protocol {
        headers.insert("sec-websocket-protocol", protocol.parse().unwrap());
    }
    match client_async(request, served.connect().await).await {
        Ok((socket, answer)) => {
            let spoken = answer.headers().get("sec-websocket-protocol");
            assert_eq!(spoken.map(|it| it.to_str().unwrap()), protocol);
            Ok(socket)
        }
        Err(Error::Http(answer)) => {
            let body = answer.body().clone().unwrap_or_default();
            let text = String::from_utf8_lossy(&body).into_owned();
            Err((answer.status().as_u16(), text))
        }
        Err(error) => panic!("{error}"),
    }
}

async fn send(socket: &mut TestSocket, bytes: &[u8]) {
    let message = Message::Binary(Bytes::copy_from_slice(bytes));
    socket.send(message).await.unwrap();
}

/// The next binary message; none at the end.
async fn next(socket: &mut TestSocket) -> Option<Vec<u8>> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Binary(bytes))) => return Some(bytes.to_vec()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

#[tokio::test]
async fn a_command_speaks_the_words_of_kubernetes() {
    let served = served().await;
    for token in [ANN, ADMIN] {
        let mut socket = open(&served, token, EXEC, Some(SUBPROTOCOL)).await.unwrap();
        send(&mut socket, b"\0hello").await;
        assert_eq!(next(&mut socket).await.unwrap(), b"\x01hello");
        // The end of the input, then that of the command.
        send(&mut socket, &[255, 0]).await;
        let end = next(&mut socket).await.unwrap();
        assert_eq!(end[0], 3);
        assert_eq!(SessionEnd::of_json(&end[1..]), Some(SessionEnd::Exited(3)));
        assert_eq!(next(&mut socket).await, None);
    }
    served.stop().await;
}

#[tokio::test]
async fn a_node_that_goes_is_told() {
    let served = served().await;
    let mut socket = open(&served, ANN, EXEC, None).await.unwrap();
    send(&mut socket, b"\0break\n").await;
    let end = next(&mut socket).await.unwrap();
    let end = SessionEnd::of_json(&end[1..]).unwrap();
    let SessionEnd::Failed(why) = end else {
        panic!("{end:?}")
    };
    assert!(
        why.contains("the connection to the task's node broke"),
        "{why}"
    );
    served.stop().await;
}

#[tokio::test]
async fn both_directions_of_a_connection_end_alone() {
    let served = served().await;
    let mut socket = open(&served, ANN, PORT, None).await.unwrap();
    let long = vec![7; 300_000];
    for part in long.chunks(100_000) {
        send(&mut socket, part).await;
    }
    // The other side answers once this direction has ended.
    send(&mut socket, b"").await;
    let mut back = Vec::new();
    while let Some(bytes) = next(&mut socket).await {
        if bytes.is_empty() {
            break;
        }
        back.extend(bytes);
    }
    assert!(back == long, "{} bytes", back.len());
    assert_eq!(next(&mut socket).await, None);
    served.stop().await;
}

#[tokio::test]
async fn what_is_not_granted_is_an_answer_of_http() {
    let served = served().await;
    let refused = async |token: &str, path: &str, protocol| {
        let answer = open(&served, token, path, protocol).await;
        answer.err().unwrap()
    };
    let other = EXEC.replace("ann~", "admin~");
    for (token, path, status, text) in [
        (ANN, other.as_str(), 403, "not allowed"),
        (PROGRAM, EXEC, 403, "Applications"),
        ("Bearer none", EXEC, 401, ""),
        (ANN, &EXEC.replace("worker/0", "worker/7"), 404, "worker:7"),
        (ANN, &EXEC.replace("~job", "~none"), 404, "ann~none"),
        (ANN, &EXEC.replace("~job", "~waits"), 409, ""),
        (ANN, &EXEC.replace("=cat", "="), 400, "command:"),
        (
            ANN,
            &format!("{EXEC}&tty=true&width=0"),
            400,
            "width must be",
        ),
        (ANN, &format!("{EXEC}&tty=true&term=a;b"), 400, "term:"),
        (ANN, &PORT.replace("8888", "0"), 400, "port must be"),
        (ANN, &PORT.replace("8888", "8x"), 400, "port must be"),
        (
            ANN,
            &PORT.replace("8888", "web"),
            400,
            "by its label, my or ssh or http",
        ),
    ] {
        let (said, body) = refused(token, path, None).await;
        assert_eq!(said, status, "{path}: {body}");
        assert!(body.contains(text), "{path}: {body}");
    }
    let (said, body) = refused(ANN, EXEC, Some("v4.channel.k8s.io")).await;
    assert_eq!(said, 426, "{body}");
    assert!(body.contains("v5.channel.k8s.io"), "{body}");
    served.stop().await;
}

/// What a request to a web tool is answered with, as text.
async fn tool(served: &Served, head: &str) -> String {
    let mut stream = served.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let reading = stream.read_to_end(&mut answer);
    tokio::time::timeout(std::time::Duration::from_secs(20), reading)
        .await
        .unwrap()
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn request(path: &str, cookies: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nCookie: {cookies}\r\nX-Own: yes\r\n\r\n"
    )
}

#[tokio::test]
async fn a_tool_is_asked_without_the_login_and_its_answer_keeps_to_its_path() {
    let served = served().await;
    let cookies = "muster_session=ann-token; mine=1; token=ann-token";
    let answer = tool(
        &served,
        &request("/proxy/ann~job/6006/data/x%20y?a=b", cookies),
    )
    .await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    // The fake's tool says what it was asked.
    assert!(body.contains("GET /data/x%20y?a=b HTTP/1.1"), "{body}");
    assert!(body.contains("cookie: mine=1\r\n"), "{body}");
    assert!(body.contains("x-own: yes"), "{body}");
    assert!(
        body.contains("x-forwarded-prefix: /proxy/ann~job/6006"),
        "{body}"
    );
    assert!(!answer.contains("ann-token"), "{answer}");
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains("set-cookie: tool=1; path=/proxy/ann~job/6006/"),
        "{head}"
    );
    for left_out in [
        "muster_session",
        "clear-site-data",
        "service-worker-allowed",
        "access-control",
    ] {
        assert!(!head.contains(left_out), "{head}");
    }
    let answer = tool(
        &served,
        &request("/absproxy/ann~job:worker:1/6006/x", cookies),
    )
    .await;
    let line = "GET /absproxy/ann~job:worker:1/6006/x HTTP/1.1";
    assert!(answer.contains(line), "{answer}");
    // A port that the task was given, by its label.
    let answer = tool(&served, &request("/proxy/ann~job/http/x", cookies)).await;
    assert!(answer.contains("GET /x HTTP/1.1"), "{answer}");
    let prefix = "x-forwarded-prefix: /proxy/ann~job/http\r\n";
    assert!(answer.contains(prefix), "{answer}");
    // Links of the tool are relative to its first page.
    let answer = tool(&served, &request("/proxy/ann~job/6006?a=b", cookies)).await;
    assert!(answer.starts_with("HTTP/1.1 307"), "{answer}");
    let place = "location: /proxy/ann~job/6006/?a=b\r\n";
    assert!(answer.to_ascii_lowercase().contains(place), "{answer}");
    served.stop().await;
}

/// As a WebSocket of a tool, whose words are the tool's own.
#[tokio::test]
async fn a_tool_and_the_browser_may_leave_http() {
    let served = served().await;
    let mut stream = served.connect().await;
    let head = request("/proxy/ann~job/6006/chat", "muster_session=ann-token");
    let head = head.replace("Connection: close", "Connection: Upgrade\r\nUpgrade: chat");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("upgrade: chat"), "{answer}");
    stream.write_all(b"no HTTP at all").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, b"no HTTP at all");
    served.stop().await;
}

#[tokio::test]
async fn a_page_of_another_port_gets_nothing_of_a_tool() {
    let served = served().await;
    let head = request("/proxy/ann~job/6006/", "muster_session=ann-token");
    for (origin, status) in [("http://localhost", 200), ("http://localhost:20001", 403)] {
        let head = head.replace("X-Own: yes", &format!("Origin: {origin}"));
        let answer = tool(&served, &head).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{origin}: {answer}");
    }
    served.stop().await;
}

#[tokio::test]
async fn a_tool_is_its_owner_s_alone() {
    let served = served().await;
    for (path, cookies, status, text) in [
        (
            "/proxy/ann~job/6006/",
            "muster_session=admin-token",
            403,
            "port-forward",
        ),
        (
            "/proxy/admin~job/6006/",
            "muster_session=ann-token",
            403,
            "not allowed",
        ),
        (
            "/proxy/ann~job/0/",
            "muster_session=ann-token",
            400,
            "port must be",
        ),
        (
            "/proxy/ann~none/6006/",
            "muster_session=ann-token",
            404,
            "ann~none",
        ),
        (
            "/proxy/ann~waits/6006/",
            "muster_session=ann-token",
            409,
            "",
        ),
        (
            "/rest-server/proxy/ann~job/6006/",
            "muster_session=ann-token",
            404,
            "",
        ),
    ] {
        let answer = tool(&served, &request(path, cookies)).await;
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{path}: {answer}");
        assert!(answer.contains(text), "{path}: {answer}");
    }
    // Without a login there is a way to one.
    let answer = tool(&served, &request("/proxy/ann~job/6006/", "a=b")).await;
    assert!(answer.contains("/login"), "{answer}");
    served.stop().await;
}
