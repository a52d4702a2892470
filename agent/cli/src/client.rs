//! HTTP to one agent: a connection for each request, bodies streamed both ways.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, IF_MATCH, SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Builder;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use muster_model::id::UserName;
use muster_model::remark::Remark;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::endpoint::AgentEndpoint;
use super::error::{CliError, TransportCause, lines, readable};

/// A WebSocket to an agent.
pub(super) type AgentSocket = WebSocketStream<TokioIo<Upgraded>>;
/// A request's body.
pub(super) type RequestBody = BoxBody<Bytes, io::Error>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For answers that the agent gives at once. A submit may wait for a disk.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest answer that is held in memory: a listing of some 100,000 jobs.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// So much of an error that is no JSON is shown.
const ERROR_CHARS_MAX: usize = 500;
/// Names who a job belongs to when the request comes through root's socket.
const USER_HEADER: &str = "x-muster-user";

/// One agent, and who speaks to it.
#[derive(Clone, Debug)]
pub(super) struct AgentClient {
    endpoint: AgentEndpoint,
    user: Option<UserName>,
}

impl AgentClient {
    pub(super) const fn new(endpoint: AgentEndpoint, user: Option<UserName>) -> Self {
        Self { endpoint, user }
    }

    /// Whose job a bare name means.
    pub(super) fn default_user(&self) -> Option<UserName> {
        self.user.clone().or_else(|| self.endpoint.token_user())
    }

    /// Starts a request to `path`, which may hold a query.
    pub(super) fn request(&self, method: Method, path: &str) -> Builder {
        let builder = Request::builder().method(method);
        match &self.endpoint {
            AgentEndpoint::Socket(_) => {
                let builder = builder.uri(path).header(HOST, "localhost");
                match &self.user {
                    Some(user) => builder.header(USER_HEADER, user.as_str()),
                    None => builder,
                }
            }
            AgentEndpoint::Remote {
                host,
                port,
                base,
                token,
                ..
            } => {
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.clone()
                };
                let builder = builder
                    .uri(format!("{base}{path}"))
                    .header(HOST, format!("{host}:{port}"));
                match token {
                    Some(token) => builder.header(AUTHORIZATION, format!("Bearer {token}")),
                    None => builder,
                }
            }
        }
    }

    /// Sends a request and gives its answer once the head is there. `what` names the request in
    /// errors: "cannot stop admin~train". An answer other than a success is an error.
    pub(super) async fn send(
        &self,
        what: &str,
        request: Builder,
        body: RequestBody,
    ) -> Result<Response<Incoming>, CliError> {
        let request = request
            .body(body)
            .map_err(|error| CliError::Usage(format!("{what}: {error}")))?;
        let mut sender = self.connect().await?;
        let answer = sender
            .send_request(request)
            .await
            .map_err(|source| broken(what, source))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        Err(refusal(what, answer).await)
    }

    /// Sends a request and reads its whole answer, which must come within `limit`.
    pub(super) async fn call(
        &self,
        what: &str,
        request: Builder,
        body: RequestBody,
        limit: Duration,
    ) -> Result<Bytes, CliError> {
        let exchange = async {
            let answer = self.send(what, request, body).await?;
            collect(what, answer).await
        };
        self.within(limit, exchange).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        exchange: impl Future<Output = Result<T, CliError>>,
    ) -> Result<T, CliError> {
        timeout(limit, exchange)
            .await
            .map_err(|_| CliError::Silent {
                endpoint: self.endpoint.to_string(),
                seconds: limit.as_secs(),
            })?
    }

    /// Asks for JSON.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
    ) -> Result<T, CliError> {
        let request = self.request(Method::GET, path);
        let answer = self.call(what, request, empty(), ANSWER_TIMEOUT).await?;
        understood(what, &answer)
    }

    /// Sends JSON, and reads some.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<T, CliError> {
        let answer = self.send_json(what, Method::POST, path, body).await?;
        understood(what, &answer)
    }

    /// Sends JSON that asks for nothing.
    pub(super) async fn put(&self, what: &str, path: &str, body: &Value) -> Result<(), CliError> {
        self.send_json(what, Method::PUT, path, body).await?;
        Ok(())
    }

    /// The same, which holds only if what is changed is still at `revision`, an ETag.
    pub(super) async fn put_at(
        &self,
        what: &str,
        path: &str,
        body: &Value,
        revision: &str,
    ) -> Result<(), CliError> {
        let request = self.request(Method::PUT, path).header(IF_MATCH, revision);
        let (request, body) = json(request, body);
        self.call(what, request, body, ANSWER_TIMEOUT).await?;
        Ok(())
    }

    /// Deletes what JSON names.
    pub(super) async fn delete_named(
        &self,
        what: &str,
        path: &str,
        body: &Value,
    ) -> Result<(), CliError> {
        self.send_json(what, Method::DELETE, path, body).await?;
        Ok(())
    }

    async fn send_json(
        &self,
        what: &str,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Bytes, CliError> {
        let (request, body) = json(self.request(method, path), body);
        self.call(what, request, body, ANSWER_TIMEOUT).await
    }

    /// Sends a document in YAML.
    pub(super) async fn send_yaml(
        &self,
        what: &str,
        method: Method,
        path: &str,
        text: String,
    ) -> Result<Bytes, CliError> {
        let request = self.request(method, path);
        let request = request.header(CONTENT_TYPE, "text/yaml");
        self.call(what, request, full(text), ANSWER_TIMEOUT).await
    }

    /// Deletes something.
    pub(super) async fn delete(&self, what: &str, path: &str) -> Result<(), CliError> {
        let request = self.request(Method::DELETE, path);
        self.call(what, request, empty(), ANSWER_TIMEOUT).await?;
        Ok(())
    }

    /// Asks for a listing, and for what these headers say of it.
    pub(super) async fn list<T: DeserializeOwned, const N: usize>(
        &self,
        what: &str,
        path: &str,
        headers: [&str; N],
    ) -> Result<(T, [Option<String>; N]), CliError> {
        let exchange = async {
            let answer = self.send(what, self.request(Method::GET, path), empty());
            let answer = answer.await?;
            let said = headers.map(|header| {
                let said = answer.headers().get(header);
                said.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            });
            Ok((collect(what, answer).await?, said))
        };
        let (bytes, said) = self.within(ANSWER_TIMEOUT, exchange).await?;
        Ok((understood(what, &bytes)?, said))
    }

    /// Opens a WebSocket at `path`, which may hold a query.
    pub(super) async fn socket(
        &self,
        what: &str,
        path: &str,
        subprotocol: Option<&'static str>,
    ) -> Result<AgentSocket, CliError> {
        let opening = async {
            let key = generate_key();
            let mut request = self
                .request(Method::GET, path)
                .header(CONNECTION, "Upgrade")
                .header(UPGRADE, "websocket")
                .header(SEC_WEBSOCKET_VERSION, "13")
                .header(SEC_WEBSOCKET_KEY, &key);
            if let Some(name) = subprotocol {
                request = request.header(SEC_WEBSOCKET_PROTOCOL, name);
            }
            let request = request
                .body(empty())
                .map_err(|error| CliError::Usage(format!("{what}: {error}")))?;
            let mut sender = self.connect().await?;
            let answer = sender.send_request(request).await;
            let answer = answer.map_err(|source| broken(what, source))?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                return Err(refusal(what, answer).await);
            }
            let accept = answer.headers().get(SEC_WEBSOCKET_ACCEPT);
            if accept.is_none_or(|accept| *accept != *derive_accept_key(key.as_bytes())) {
                return Err(CliError::Garbled {
                    what: what.to_owned(),
                    source: "it is no answer to this WebSocket's key".into(),
                });
            }
            let upgraded = hyper::upgrade::on(answer).await;
            upgraded.map_err(|source| broken(what, source))
        };
        let upgraded = self.within(ANSWER_TIMEOUT, opening).await?;
        let socket = AgentSocket::from_raw_socket(TokioIo::new(upgraded), Role::Client, None);
        Ok(socket.await)
    }

    async fn connect(&self) -> Result<http1::SendRequest<RequestBody>, CliError> {
        let opened = match &self.endpoint {
            AgentEndpoint::Socket(path) => match UnixStream::connect(path).await {
                Ok(stream) => handshake(stream).await,
                Err(error) => Err(error.into()),
            },
            AgentEndpoint::Remote {
                host, port, tls, ..
            } => {
                let connecting = async {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    match tls {
                        None => handshake(stream).await,
                        Some(known) => handshake(known.connect(stream, host).await?).await,
                    }
                };
                match timeout(CONNECT_TIMEOUT, connecting).await {
                    Ok(opened) => opened,
                    Err(late) => Err(late.into()),
                }
            }
        };
        opened.map_err(|source| match source.downcast::<CliError>() {
            Ok(error) => *error,
            Err(source) => CliError::Connect {
                endpoint: self.endpoint.to_string(),
                source,
            },
        })
    }
}

async fn handshake<T>(stream: T) -> Result<http1::SendRequest<RequestBody>, TransportCause>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Ends with its one exchange; what breaks it is also told to whoever reads the answer.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

/// Reads an answer's JSON.
pub(super) fn understood<T: DeserializeOwned>(what: &str, answer: &[u8]) -> Result<T, CliError> {
    serde_json::from_slice(answer).map_err(|source| CliError::Garbled {
        what: what.to_owned(),
        source: source.into(),
    })
}

async fn collect(what: &str, answer: Response<Incoming>) -> Result<Bytes, CliError> {
    Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
        .map(|body| body.to_bytes())
        .map_err(|source| broken(what, source))
}

async fn refusal(what: &str, answer: Response<Incoming>) -> CliError {
    #[derive(Deserialize)]
    struct Reason {
        code: String,
        message: String,
        #[serde(default)]
        errors: Vec<Remark>,
        #[serde(default, rename = "currentVersion")]
        newest: Option<u64>,
    }
    let status = answer.status();
    let body = match timeout(ANSWER_TIMEOUT, collect(what, answer)).await {
        Ok(Ok(body)) => body,
        _ => Bytes::new(),
    };
    let reason = serde_json::from_slice(&body).unwrap_or_else(|_| Reason {
        code: String::new(),
        message: match String::from_utf8_lossy(&body).trim() {
            "" => format!("the agent answers {status}"),
            text => text.chars().take(ERROR_CHARS_MAX).collect(),
        },
        errors: Vec::new(),
        newest: None,
    });
    CliError::Refused {
        what: what.to_owned(),
        status,
        code: reason.code,
        message: match reason.errors.as_slice() {
            [] => readable(&reason.message),
            errors => lines(errors),
        },
        newest: reason.newest,
    }
}

/// A connection that ended within an exchange.
pub(super) fn broken(what: &str, source: impl Into<TransportCause>) -> CliError {
    CliError::Broken {
        what: what.to_owned(),
        source: source.into(),
    }
}

/// No body.
pub(super) fn empty() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// A body held in memory.
pub(super) fn full(bytes: impl Into<Bytes>) -> RequestBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

/// A JSON body with its header.
pub(super) fn json(request: Builder, value: &Value) -> (Builder, RequestBody) {
    let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (request, full(value.to_string()))
}
