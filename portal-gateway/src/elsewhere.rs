//! Logs of tasks that ran on another node: read from that node's gateway, and passed on as they
//! come. A log link is the right to read them there too.

use std::time::Duration;

use futures::TryStreamExt as _;
use http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, HOST, HeaderName, RANGE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, BodyStream, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use muster_model::task_use::TaskUse;
use muster_tls::CertificateTrust;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::LogLinkKey;
use crate::error::ApiError;
use crate::port::{self, LogFileInfo, LogPlaces};
use crate::proof::{self, CertificateProof};
use crate::reply::HttpReply;

type Sender = http1::SendRequest<String>;

/// How long another node may take to take a connection, and to begin its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest list of files or of places, in bytes.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Longest proof of a certificate, in bytes.
const PROOF_BYTES_MAX: usize = 1024;
/// Says that a node asks for its user: it is answered from this node, or not at all.
const FORWARDED: HeaderName = HeaderName::from_static("x-muster-forwarded");
/// What is passed on of another node's answer.
const PASSED: [HeaderName; 4] = [
    CONTENT_LENGTH,
    CONTENT_RANGE,
    ACCEPT_RANGES,
    HeaderName::from_static("x-muster-start"),
];

/// Whether a request was passed on by another node.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED)
}

/// The gateway of another node.
#[derive(Clone, Copy)]
pub(crate) struct OtherGateway<'a> {
    /// The node's address.
    pub(crate) address: &'a str,
    /// Where gateways listen.
    pub(crate) port: u16,
    /// The token of a log link.
    pub(crate) token: &'a str,
    /// The key that all members share, where they speak TLS.
    pub(crate) key: Option<&'a LogLinkKey>,
}

impl OtherGateway<'_> {
    /// The files of the log.
    pub(crate) async fn files(&self) -> Result<Vec<LogFileInfo>, ApiError> {
        self.json("logs", "").await
    }

    /// What is found in a file of the log.
    pub(crate) async fn places(&self, name: &str, query: &str) -> Result<LogPlaces, ApiError> {
        self.json(&format!("logs/{name}/places"), query).await
    }

    /// What the task used that the log is of.
    pub(crate) async fn used(&self) -> Result<TaskUse, ApiError> {
        self.json("use", "").await
    }

    async fn json<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<T, ApiError> {
        let answer = self.get(path, query, "").await?;
        let body = Limited::new(answer.into_body(), LIST_BYTES_MAX);
        let body = timeout(PATIENCE, body.collect()).await;
        let body = body.map_err(|_| self.silent("nothing for 10 s"))?;
        let body = body.map_err(|error| self.silent(error))?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| self.silent(error))
    }

    /// One file of the log. `query` and `range` say which part, as they came.
    pub(crate) async fn file(
        &self,
        name: &str,
        query: &str,
        range: &str,
    ) -> Result<HttpReply, ApiError> {
        let answer = self.get(&format!("logs/{name}"), query, range).await?;
        let (head, body) = answer.into_parts();
        let frames = futures::TryStreamExt::map_err(BodyStream::new(body), std::io::Error::other);
        let bytes = frames.try_filter_map(|frame| async { Ok(frame.into_data().ok()) });
        let mut reply = HttpReply::text_stream(Box::pin(bytes), None).with_status(head.status);
        for name in PASSED {
            if let Some(value) = head.headers.get(&name) {
                reply = reply.with(name, value.clone());
            }
        }
        Ok(reply)
    }

    async fn get(
        &self,
        path: &str,
        query: &str,
        range: &str,
    ) -> Result<Response<Incoming>, ApiError> {
        let host = match self.address.contains(':') {
            true => format!("[{}]:{}", self.address, self.port),
            false => format!("{}:{}", self.address, self.port),
        };
        let token = self.token;
        let and = if query.is_empty() { "" } else { "&" };
        let uri = format!("/log-manager/{host}/api/v1/{path}?token={token}{and}{query}");
        let mut request = Request::get(uri)
            .header(HOST, &host)
            .header(FORWARDED, HeaderValue::from_static("1"));
        if !range.is_empty() {
            request = request.header(RANGE, range);
        }
        let request = request
            .body(String::new())
            .map_err(|error| ApiError::Answer(error.to_string()))?;
        let asked = async {
            let mut sender = self.connect(&host).await?;
            sender
                .send_request(request)
                .await
                .map_err(|error| self.silent(error))
        };
        let answer = timeout(PATIENCE, asked).await;
        let answer = answer.map_err(|_| self.silent("no answer within 10 s"))??;
        match answer.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => Ok(answer),
            StatusCode::RANGE_NOT_SATISFIABLE => Err(ApiError::Range {
                size: size(answer.headers()),
            }),
            StatusCode::NOT_FOUND => Err(port::PortError::NoLog.into()),
            StatusCode::FORBIDDEN => Err(ApiError::LogLink),
            status => Err(self.silent(format_args!("it answers {status}"))),
        }
    }

    async fn connect(&self, host: &str) -> Result<Sender, ApiError> {
        let stream = TcpStream::connect(host).await;
        let stream = stream.map_err(|error| self.silent(error))?;
        let Some(key) = self.key else {
            return self.open(stream).await;
        };
        let connected = muster_tls::connect(stream, self.address, CertificateTrust::Anything).await;
        let (stream, seen) = connected.map_err(|error| {
            self.silent(format_args!(
                "{error}; tls.enabled in agent.toml has to be the same on all nodes"
            ))
        })?;
        let mut sender = self.open(stream).await?;
        self.check(&mut sender, host, &CertificateProof::new(key.clone(), seen))
            .await?;
        Ok(sender)
    }

    async fn open<S>(&self, stream: S) -> Result<Sender, ApiError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let opened = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| self.silent(error))?;
        // Ends with the answer's body, or when that is dropped.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Has the other node prove that the certificate is its own: it knows the members' key. The
    /// link's token is sent only then.
    async fn check(
        &self,
        sender: &mut Sender,
        host: &str,
        proof: &CertificateProof,
    ) -> Result<(), ApiError> {
        let nonce = proof::nonce();
        let uri = format!("/log-manager/{host}/api/v1/proof?nonce={nonce}");
        let request = Request::get(uri).header(HOST, host).body(String::new());
        let request = request.map_err(|error| ApiError::Answer(error.to_string()))?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| self.silent(error))?;
        let body = Limited::new(answer.into_body(), PROOF_BYTES_MAX);
        let body = body.collect().await.map_err(|error| self.silent(error))?;
        match proof.is_right(&nonce, &body.to_bytes()) {
            true => Ok(()),
            false => Err(self.silent("its certificate is not that of a member of this cluster")),
        }
    }

    fn silent(&self, why: impl std::fmt::Display) -> ApiError {
        let address = self.address;
        port::PortError::Unavailable(format!(
            "the log lies on the node at {address}, which cannot be asked now: {why}; try again"
        ))
        .into()
    }
}

/// The size of a file, from `bytes */SIZE`; 0 if it is not told.
fn size(headers: &HeaderMap) -> u64 {
    let range = headers.get(CONTENT_RANGE).and_then(|it| it.to_str().ok());
    let size = range.and_then(|range| range.rsplit('/').next());
    size.and_then(|size| size.parse().ok()).unwrap_or(0)
}
