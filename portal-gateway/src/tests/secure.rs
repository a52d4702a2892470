//! TLS, through real sockets: who must speak it, and how members know each other by it.

use std::net::Ipv4Addr;

use muster_tls::{CertificateTrust, Tls};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::crowd::{HERE, SOON, Served, serve};
use super::setup::*;
use crate::config::{GatewayConfig, LogLinkKey};

fn certificate() -> Tls {
    let made = rcgen::generate_simple_self_signed(["n1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    Tls::new(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key)).unwrap()
}

fn secure(key: u8) -> GatewayConfig {
    let (_, key) = tokio::sync::watch::channel(LogLinkKey([key; 32]));
    GatewayConfig {
        tls: Some(certificate()),
        ..GatewayConfig::new(key, 7741, "admin".parse().unwrap())
    }
}

const LOGIN: &str = "username=ann&password=ann-password";

/// The answer to a login.
async fn log_in(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let head = format!(
        "POST /api/v2/tokens HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{LOGIN}",
        LOGIN.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // What comes after the answer does not matter.
    let _ = timeout(SOON, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

async fn log_in_by_tls(served: &Served) -> String {
    let stream = served.connect(HERE).await;
    let connected = muster_tls::connect(stream, "n1", CertificateTrust::Anything).await;
    log_in(connected.unwrap().0).await
}

#[tokio::test]
async fn other_machines_are_answered_by_tls_alone() {
    let served = serve(secure(3)).await;
    let plain = log_in(served.connect(HERE).await).await;
    assert!(plain.starts_with("HTTP/1.1 400"), "{plain}");
    for part in ["HttpsRequiredError", "https://", "muster node show"] {
        assert!(plain.contains(part), "{plain}");
    }
    assert!(!plain.contains("token-of-ann"), "{plain}");
    let secret = log_in_by_tls(&served).await;
    assert!(secret.starts_with("HTTP/1.1 200"), "{secret}");
    assert!(secret.contains("token-of-ann"), "{secret}");
    served.stop().await;
}

#[tokio::test]
async fn without_a_certificate_everybody_is_answered_in_clear() {
    let served = serve(config()).await;
    let plain = log_in(served.connect(HERE).await).await;
    assert!(plain.contains("token-of-ann"), "{plain}");
    let stream = served.connect(HERE).await;
    assert!(
        muster_tls::connect(stream, "n1", CertificateTrust::Anything)
            .await
            .is_err()
    );
    served.stop().await;
}

#[tokio::test]
async fn this_machine_is_answered_in_both_manners() {
    let setup = Setup::with(secure(3));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let serving = setup.gateway.serve_tcp(listener, shutdown.clone());
    let asking = async {
        let connect = || async { tokio::net::TcpStream::connect(address).await.unwrap() };
        let plain = log_in(connect().await).await;
        assert!(plain.contains("token-of-ann"), "{plain}");
        let secret = muster_tls::connect(connect().await, "n1", CertificateTrust::Anything).await;
        let secret = log_in(secret.unwrap().0).await;
        assert!(secret.contains("token-of-ann"), "{secret}");
        shutdown.cancel();
    };
    timeout(SOON, async { tokio::join!(serving, asking) })
        .await
        .unwrap();
}

/// What this machine answers about a log that lies on another node, whose key is `other`.
async fn log_elsewhere(other: u8) -> (u16, String) {
    let there = Setup::with(secure(other));
    let running = muster_model::state::SubState::AttemptRunning;
    there
        .fake
        .write_log(&"a-0".parse().unwrap(), "stdout", "from there");
    let address = Ipv4Addr::new(127, 9, 0, 3);
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let here = Setup::with(GatewayConfig { port, ..secure(3) });
    let mut job = placed("ann~job", running);
    job.roles[0].tasks[0].attempts[0].address = Some(address.to_string());
    here.fake.put(job);
    here.fake.lose_logs();
    let shutdown = CancellationToken::new();
    let serving = there.gateway.serve_tcp(listener, shutdown.clone());
    let asking = async {
        let path = "/api/muster/v1/jobs/ann~job/attempts/0/tasks/worker/0/0/logs/stdout";
        let answer = here.get(ANN, path).await;
        shutdown.cancel();
        (answer.status.as_u16(), answer.text().to_owned())
    };
    let (_, answer) = tokio::join!(serving, asking);
    answer
}

#[tokio::test]
async fn logs_of_other_nodes_come_by_tls_from_members_alone() {
    assert_eq!(log_elsewhere(3).await, (200, "from there".to_owned()));
    let (status, text) = log_elsewhere(4).await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("not that of a member"), "{text}");
}
