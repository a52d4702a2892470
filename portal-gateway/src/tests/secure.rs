//! TLS, through real sockets: who must speak it, and how members know each other by it.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::time::Duration;

use muster_tls::{CertificateTrust, ShownCertificate, Tls};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::crowd::{CROWD, HERE, SOON, Served, THERE, closed, serve};
use super::setup::*;
use crate::config::{GatewayConfig, LogLinkKey};
use crate::host_names::HostNames;
use crate::proof::{self, CertificateProof};

/// A certificate of `n1`, and itself in PEM.
fn certificate() -> (Tls, String) {
    let made = rcgen::generate_simple_self_signed(["n1".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    let tls = Tls::new(vec![made.cert.der().clone()], PrivateKeyDer::Pkcs8(key)).unwrap();
    (tls, made.cert.pem())
}

fn secure(key: u8) -> GatewayConfig {
    secure_by(key, certificate().0.into())
}

fn secure_by(key: u8, shown: ShownCertificate) -> GatewayConfig {
    let (_, key) = tokio::sync::watch::channel(LogLinkKey([key; 32]));
    GatewayConfig {
        tls: Some(shown),
        host_names: HostNames::new(["n1".to_owned()]),
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

/// Connections that begin a handshake and stop, by TLS 1.2's record and by 1.3's.
#[tokio::test]
async fn half_handshakes_hold_nobody_up() {
    for begun in ["\x16\x03\x01\x02\x00\x01\x00", "\x16"] {
        let mut config = secure(3);
        config.limits.shutdown_grace = Duration::from_millis(50);
        config.rates.api_per_minute = NonZeroU32::MAX;
        let per_address = config.limits.connections_per_address.get() as usize;
        let served = serve(config).await;
        let mut crowd = served.crowd(CROWD, begun).await;
        for from in [THERE, HERE] {
            let began = Instant::now();
            let stream = served.connect(from).await;
            let connected = muster_tls::connect(stream, "n1", CertificateTrust::Anything).await;
            let answer = log_in(connected.unwrap().0).await;
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        }
        let gone = closed(&mut crowd).await;
        assert!(gone >= CROWD - per_address, "only {gone} were closed");
        served.stop().await;
    }
}

#[tokio::test]
async fn a_handshake_has_a_limit() {
    let mut config = secure(3);
    config.limits.head_timeout = Duration::from_millis(300);
    let served = serve(config).await;
    let began = Instant::now();
    let mut crowd = served.crowd(1, "\x16\x03\x01\x02\x00\x01").await;
    let mut rest = Vec::new();
    let ended = timeout(SOON, crowd[0].read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "it was kept");
    assert!(began.elapsed() >= Duration::from_millis(300));
    served.stop().await;
}

/// The head of an answer over TLS.
async fn head_by_tls(served: &Served, path: &str) -> String {
    let stream = served.connect(HERE).await;
    let connected = muster_tls::connect(stream, "n1", CertificateTrust::Anything).await;
    ask(connected.unwrap().0, path, "n1").await
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, host: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(SOON, stream.read_to_end(&mut answer))
        .await
        .unwrap();
    String::from_utf8_lossy(&answer).to_ascii_lowercase()
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_lost_request() {
    let (sender, shown) = ShownCertificate::new(certificate().0);
    let mut config = secure_by(3, shown.clone());
    config.rates.api_per_minute = NonZeroU32::MAX;
    let served = serve(config).await;
    let old = shown.now().fingerprint;
    // A connection that is open while the certificate changes: it proves the one that it was shown.
    let stream = served.connect(HERE).await;
    let (open, seen) = muster_tls::connect(stream, "n1", CertificateTrust::Anything)
        .await
        .unwrap();
    assert_eq!(seen, old);
    let swaps = async {
        for _ in 0..20 {
            sender.send_replace(certificate().0);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let requests = async {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..60 {
            let stream = served.connect(HERE).await;
            let connected = muster_tls::connect(stream, "n1", CertificateTrust::Anything).await;
            let (stream, fingerprint) = connected.unwrap();
            seen.insert(fingerprint.0);
            let answer = ask(stream, "/healthz", "n1").await;
            assert!(answer.starts_with("http/1.1 200"), "{answer}");
        }
        seen.len()
    };
    let ((), certificates) = tokio::join!(swaps, requests);
    assert!(certificates > 1, "they saw {certificates} certificates");
    let nonce = proof::nonce();
    let path = format!("/log-manager/n1:1/api/v1/proof?nonce={nonce}");
    let answer = ask(open, &path, "n1").await;
    let key = LogLinkKey([3; 32]);
    let right = CertificateProof::new(key, old).text(&nonce).unwrap();
    assert!(answer.ends_with(&right), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn browsers_are_told_to_come_by_tls_alone_where_that_is_wanted() {
    const HEADER: &str = "\r\nstrict-transport-security: max-age=86400\r\n";
    let (mut tls, _) = certificate();
    tls.strict_transport_s = 86_400;
    let served = serve(secure_by(3, tls.into())).await;
    for path in ["/status", "/api/v2/info", "/no/such/path"] {
        let answer = head_by_tls(&served, path).await;
        assert!(answer.contains(HEADER), "{answer}");
    }
    let plain = ask(served.connect(HERE).await, "/api/v2/info", "n1").await;
    assert!(!plain.contains("strict-transport"), "{plain}");
    served.stop().await;
    let served = serve(secure(3)).await;
    let answer = head_by_tls(&served, "/status").await;
    assert!(!answer.contains("strict-transport"), "{answer}");
    served.stop().await;
}

#[tokio::test]
async fn a_page_asked_for_in_clear_is_sent_on_and_nothing_else_is() {
    let served = serve(secure(3)).await;
    for (path, host, place) in [
        ("/status?x=1", "n1:7741", Some("https://n1:7741/status?x=1")),
        ("/", "10.0.0.1:80", Some("https://10.0.0.1:80/")),
        ("//evil.example", "n1", None),
        ("/status", "evil.example", None),
        ("/status", "n1:80@evil.example", None),
        ("/api/v2/info", "n1", None),
        ("/healthz", "n1", None),
    ] {
        let answer = ask(served.connect(HERE).await, path, host).await;
        match place {
            Some(place) => {
                assert!(answer.starts_with("http/1.1 307"), "{path}: {answer}");
                let header = format!("\r\nlocation: {place}\r\n");
                assert!(answer.contains(&header), "{path}: {answer}");
            }
            None => assert!(answer.starts_with("http/1.1 400"), "{path}: {answer}"),
        }
    }
    served.stop().await;
}

/// What other programs make of it: they know the certificate by its file.
#[tokio::test]
async fn curl_and_openssl_speak_with_it() {
    let (tls, pem) = certificate();
    let served = serve(secure_by(3, tls.into())).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("n1.crt");
    std::fs::write(&file, pem).unwrap();
    let (file, port) = (file.to_string_lossy().into_owned(), served.port());
    let curl = |version: &str| {
        format!(
            "curl -sS --cacert {file} --resolve n1:{port}:{HERE} {version} \
             -w ' %{{http_version}}' https://n1:{port}/healthz"
        )
    };
    for (command, expect) in [
        (curl("--http2"), "ok 2"),
        (curl("--http1.1"), "ok 1.1"),
        (curl("--tls-max 1.2"), "ok 2"),
        (curl("--tlsv1.3"), "ok 2"),
        (
            format!(
                "printf 'GET /healthz HTTP/1.1\r\nhost: n1\r\nconnection: close\r\n\r\n' | \
                 openssl s_client -quiet -verify_return_error -verify_hostname n1 -CAfile {file} \
                 -servername n1 -connect {HERE}:{port}"
            ),
            "\r\n\r\nok",
        ),
    ] {
        let answer = shell(&command).await;
        assert!(
            answer.0 && answer.1.contains(expect),
            "{command}: {answer:?}"
        );
    }
    let refused = shell(&format!(
        "curl -sS --tls-max 1.1 -k https://{HERE}:{port}/healthz"
    ))
    .await;
    assert!(!refused.0, "{refused:?}");
    served.stop().await;
}

/// Whether a command ended well, and what it said.
async fn shell(command: &str) -> (bool, String) {
    let done = tokio::process::Command::new("sh")
        .args(["-c", command])
        .output();
    let done = timeout(SOON, done).await.unwrap().unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (done.status.success(), said)
}

#[tokio::test]
async fn loopback_in_clear_can_be_closed() {
    let setup = Setup::with(GatewayConfig {
        plain_loopback: false,
        ..secure(3)
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let serving = setup.gateway.serve_tcp(listener, shutdown.clone());
    let asking = async {
        let connect = || async { tokio::net::TcpStream::connect(address).await.unwrap() };
        let plain = log_in(connect().await).await;
        assert!(plain.contains("HttpsRequiredError"), "{plain}");
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
