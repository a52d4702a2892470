//! A REST client as OpenPAI's users have one: a login, then bearer tokens.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Polled, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tower::Service;

use crate::net::Namespace;

/// How often a client asks for a job's state.
const POLL: Duration = Duration::from_millis(5);

/// A logged-in client. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: Http<Connector, Full<Bytes>>,
    url: String,
    token: String,
}

impl Client {
    /// Logs in as `user`.
    ///
    /// # Errors
    /// When the agent does not answer or refuses the login.
    pub async fn login(url: &str, user: &str, password: &str) -> Result<Self> {
        let client = Self::with(Connector(None), url);
        client.logged_in(user, password).await
    }

    /// A client in a network namespace, which did not log in.
    pub fn inside(namespace: Arc<Namespace>, url: &str) -> Self {
        Self::with(Connector(Some(namespace)), url)
    }

    fn with(connector: Connector, url: &str) -> Self {
        Self {
            http: Http::builder(TokioExecutor::new()).build(connector),
            url: url.to_owned(),
            token: String::new(),
        }
    }

    /// The same client, logged in as `user`.
    ///
    /// # Errors
    /// As [`Client::login`].
    pub async fn logged_in(mut self, user: &str, password: &str) -> Result<Self> {
        let body = serde_json::json!({"username": user, "password": password}).to_string();
        let (status, text) = self
            .send(
                Method::POST,
                "/api/v2/authn/basic/login",
                "application/json",
                body,
            )
            .await?;
        if status != StatusCode::OK {
            bail!("login answered {status}: {text}");
        }
        let answer: Value = serde_json::from_str(&text)?;
        self.token = answer["token"]
            .as_str()
            .context("the login gave no token")?
            .to_owned();
        Ok(self)
    }

    /// The token of its login; empty before.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The same client with a token that was issued elsewhere.
    pub fn with_token(mut self, token: &str) -> Self {
        token.clone_into(&mut self.token);
        self
    }

    /// Sends one request and gives status and body.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: String,
    ) -> Result<(StatusCode, String)> {
        let answer = self.respond(method, path, content_type, body).await?;
        let (head, text) = answer.into_parts();
        Ok((head.status, text))
    }

    /// The same, with the answer's headers.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn respond(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Result<Response<String>> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("content-type", content_type);
        if !self.token.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        let response = self
            .http
            .request(request.body(Full::new(body.into()))?)
            .await?;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Response::from_parts(head, text))
    }

    /// Gets a text.
    ///
    /// # Errors
    /// When the answer is not a 200.
    pub async fn text(&self, path: &str) -> Result<String> {
        let (status, text) = self
            .send(Method::GET, path, "text/plain", String::new())
            .await?;
        if status != StatusCode::OK {
            bail!("GET {path} answered {status}: {text}");
        }
        Ok(text)
    }

    /// Gets JSON.
    ///
    /// # Errors
    /// When the answer is not a 200 with JSON.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let (status, text) = self
            .send(Method::GET, path, "application/json", String::new())
            .await?;
        if status != StatusCode::OK {
            bail!("GET {path} answered {status}: {text}");
        }
        serde_json::from_str(&text).with_context(|| format!("GET {path} gave {text}"))
    }

    /// Submits a job.
    ///
    /// # Errors
    /// When it is not accepted with 202.
    pub async fn submit(&self, yaml: &str) -> Result<()> {
        let (status, text) = self
            .send(Method::POST, "/api/v2/jobs", "text/yaml", yaml.to_owned())
            .await?;
        if status != StatusCode::ACCEPTED {
            bail!("submit answered {status}: {text}");
        }
        Ok(())
    }

    /// Asks for the job's detail until its state satisfies `done`, and gives that detail.
    ///
    /// # Errors
    /// When the job is gone, or `limit` has passed.
    pub async fn wait(
        &self,
        job: &str,
        limit: Duration,
        done: impl Fn(&str) -> bool,
    ) -> Result<Value> {
        let path = format!("/api/v2/jobs/{job}");
        let poll = async {
            loop {
                let detail = self.get(&path).await?;
                if detail["jobStatus"]["state"].as_str().is_some_and(&done) {
                    return Ok(detail);
                }
                tokio::time::sleep(POLL).await;
            }
        };
        tokio::time::timeout(limit, poll)
            .await
            .with_context(|| format!("{job} took longer than {limit:?}"))?
    }

    /// Waits for the job's end.
    ///
    /// # Errors
    /// As [`Client::wait`].
    pub async fn wait_final(&self, job: &str, limit: Duration) -> Result<Value> {
        self.wait(job, limit, |state| {
            ["SUCCEEDED", "FAILED", "STOPPED"].contains(&state)
        })
        .await
    }
}

/// Opens connections, in a network namespace if one is given.
#[derive(Clone, Debug)]
struct Connector(Option<Arc<Namespace>>);

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Polled<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let address = uri.authority().map(ToString::to_string).unwrap_or_default();
        let namespace = self.0.clone();
        Box::pin(async move {
            let stream = match namespace {
                None => TcpStream::connect(address).await?,
                Some(namespace) => connect_inside(namespace, address).await?,
            };
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}

async fn connect_inside(namespace: Arc<Namespace>, address: String) -> std::io::Result<TcpStream> {
    let connect = move || {
        let connect = || std::net::TcpStream::connect(address);
        namespace.enter(connect).map_err(std::io::Error::other)?
    };
    let stream = tokio::task::spawn_blocking(connect).await??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}
