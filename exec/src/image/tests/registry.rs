//! Registries: Debian's docker-registry, and one that fails on demand.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::fixture::Built;
use crate::image::Digest;

/// The login that a private registry of the tests takes.
pub(super) const USER: &str = "user";
pub(super) const PASSWORD: &str = "right";
/// `right`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "user:$2y$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC\n";
const START_MAX: Duration = Duration::from_secs(20);

/// A running docker-registry. Dropping it stops it and deletes its files.
pub(super) struct Registry {
    pub(super) address: String,
    _dir: TempDir,
    server: Child,
    http: Client,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Registry {
    /// `None` where it is not installed, which is told; where `CI` is set it must be.
    pub(super) async fn start(private: bool) -> Option<Self> {
        if Command::new("docker-registry")
            .arg("--version")
            .output()
            .is_err()
        {
            assert!(
                std::env::var_os("CI").is_none(),
                "docker-registry must be installed"
            );
            eprintln!("SKIPPED tests with docker-registry: it is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let address = free.to_string();
        let path = dir.path().display();
        let mut config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {path}/data}}}}\nhttp: {{addr: '{address}'}}\n"
        );
        if private {
            std::fs::write(dir.path().join("htpasswd"), HTPASSWD).unwrap();
            config += &format!("auth: {{htpasswd: {{realm: test, path: {path}/htpasswd}}}}\n");
        }
        std::fs::write(dir.path().join("config.yml"), config).unwrap();
        let server = Command::new("docker-registry")
            .arg("serve")
            .arg(dir.path().join("config.yml"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let http = Client::builder().no_proxy().build().unwrap();
        let registry = Self {
            address,
            _dir: dir,
            server,
            http,
        };
        registry.wait_until_ready().await;
        Some(registry)
    }

    async fn wait_until_ready(&self) {
        let deadline = Instant::now() + START_MAX;
        while self.http.get(self.url("")).send().await.is_err() {
            assert!(Instant::now() < deadline, "docker-registry does not start");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v2/{path}", self.address)
    }

    /// Pushes an image under each version.
    pub(super) async fn push(&self, repository: &str, image: &Built, versions: &[&str]) {
        for (digest, blob) in image.blobs() {
            let start = self
                .http
                .post(self.url(&format!("{repository}/blobs/uploads/")));
            let answer = start.basic_auth(USER, Some(PASSWORD)).send().await.unwrap();
            let location = answer.headers()["location"].to_str().unwrap();
            let put = self
                .http
                .put(format!("{location}&digest={digest}"))
                .body(blob);
            let answer = put.basic_auth(USER, Some(PASSWORD)).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::CREATED);
        }
        for version in versions {
            let kind = "application/vnd.oci.image.manifest.v1+json";
            self.push_document(repository, version, kind, &image.manifest)
                .await;
        }
    }

    pub(super) async fn push_document(
        &self,
        repository: &str,
        version: &str,
        kind: &str,
        document: &[u8],
    ) {
        let put = self
            .http
            .put(self.url(&format!("{repository}/manifests/{version}")));
        let put = put.header("content-type", kind).body(document.to_vec());
        let answer = put.basic_auth(USER, Some(PASSWORD)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
    }
}

/// What a registry was asked.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) path: String,
    /// Names in lower case.
    pub(super) headers: BTreeMap<String, String>,
}

/// What it answers.
#[derive(Clone, Debug, Default)]
pub(super) struct RegistryAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Vec<u8>,
    /// Breaks the connection after this many bytes of the body.
    pub(super) cut: Option<usize>,
}

pub(super) fn status(status: u16) -> RegistryAnswer {
    RegistryAnswer {
        status,
        ..RegistryAnswer::default()
    }
}

pub(super) fn body(body: &[u8]) -> RegistryAnswer {
    RegistryAnswer {
        status: 200,
        body: body.to_vec(),
        ..RegistryAnswer::default()
    }
}

/// What a registry with this image answers when all is well.
pub(super) fn answer(built: &Built, asked: &Asked) -> RegistryAnswer {
    let path = asked.path.split('?').next().unwrap();
    let version = path.rsplit('/').next().unwrap();
    if path.contains("/manifests/") {
        return body(&built.manifest);
    }
    let blobs: BTreeMap<Digest, Vec<u8>> = built.blobs();
    let Some(blob) = Digest::parse(version).and_then(|d| blobs.get(&d).cloned()) else {
        return status(404);
    };
    let from = asked
        .headers
        .get("range")
        .and_then(|r| r.strip_prefix("bytes=")?.strip_suffix('-'));
    match from.map(|from| from.parse::<usize>().unwrap()) {
        Some(from) => RegistryAnswer {
            status: 206,
            ..body(&blob[from..])
        },
        None => body(&blob),
    }
}

/// A registry that answers what the test says. It ends with the test's runtime.
pub(super) struct Scripted {
    pub(super) address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    pub(super) async fn start(
        answer: impl Fn(&Asked) -> RegistryAnswer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                tokio::spawn(async move { serve(stream, &*answer, &log).await });
            }
        });
        Self { address, asked }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: &(impl Fn(&Asked) -> RegistryAnswer + Sync),
    log: &Mutex<Vec<Asked>>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers
        .map(|(k, v)| (k.to_lowercase(), v.to_owned()))
        .collect();
    let asked = Asked { path, headers };
    log.lock().unwrap().push(asked.clone());
    let answer = answer(&asked);
    let mut text = format!("HTTP/1.1 {} x\r\nconnection: close\r\n", answer.status);
    text += &format!("content-length: {}\r\n", answer.body.len());
    for (name, value) in &answer.headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    let sent = answer.cut.unwrap_or(answer.body.len());
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.write_all(&answer.body[..sent]).await;
    let _ = stream.shutdown().await;
}
