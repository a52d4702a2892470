//! An agent made of canned answers, on a socket in a temporary directory.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use clap::Parser;
use futures::stream;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use muster_model::id::JobKey;
use muster_model::state::{ExecutionType, SubState};
use muster_model::view::{JobSummary, Retries};
use tempfile::{NamedTempFile, TempDir};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::client::RequestBody;
use super::console::Console;
use super::endpoint::EndpointArguments;
use super::status::CliStatus;
use super::{Cli, execute};

/// One answer.
#[derive(Clone, Debug)]
pub(super) struct StubAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    /// Sent in these parts. `None` breaks the connection off.
    pub(super) parts: Vec<Option<Bytes>>,
}

impl StubAnswer {
    pub(super) fn json(value: impl serde::Serialize) -> Self {
        Self::text(serde_json::to_string(&value).unwrap())
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            parts: vec![Some(text.into().into())],
        }
    }

    pub(super) fn refusal(status: u16, code: &str, message: &str) -> Self {
        let body = serde_json::json!({ "code": code, "message": message });
        Self {
            status,
            ..Self::json(body)
        }
    }

    pub(super) fn with(mut self, header: &'static str, value: impl ToString) -> Self {
        self.headers.push((header, value.to_string()));
        self
    }

    pub(super) fn breaking_off(mut self) -> Self {
        self.parts.push(None);
        self
    }
}

/// What was asked: method, path with query, body, headers.
#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    pub(super) line: String,
    pub(super) body: String,
    pub(super) headers: HeaderMap,
}

#[derive(Debug, Default)]
struct Script {
    /// Answers by `METHOD /path?query`; the last of a list is given again and again.
    answers: Vec<(String, VecDeque<StubAnswer>)>,
    asked: Vec<RecordedRequest>,
}

/// The stub. Its socket is gone when it is dropped.
#[derive(Debug)]
pub(super) struct AgentStub {
    directory: TempDir,
    script: Arc<Mutex<Script>>,
    server: JoinHandle<()>,
}

impl AgentStub {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("agent.sock")).unwrap();
        let script = Arc::new(Mutex::new(Script::default()));
        let server = tokio::spawn(serve(listener, Arc::clone(&script)));
        Self {
            directory,
            script,
            server,
        }
    }

    /// The same over plain HTTP, with its address.
    pub(super) async fn start_tcp() -> (Self, String) {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let script = Arc::new(Mutex::new(Script::default()));
        let server = tokio::spawn(serve_tcp(listener, Arc::clone(&script)));
        let stub = Self {
            directory,
            script,
            server,
        };
        (stub, url)
    }

    /// Answers `METHOD /path?query` with these, one after the other.
    pub(super) fn answer(
        &self,
        line: &str,
        answers: impl IntoIterator<Item = StubAnswer>,
    ) -> &Self {
        let mut script = self.script.lock().unwrap();
        script
            .answers
            .push((line.to_owned(), answers.into_iter().collect()));
        drop(script);
        self
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("agent.sock")
    }

    /// Everything that was asked, in order.
    pub(super) fn asked(&self) -> Vec<RecordedRequest> {
        self.script.lock().unwrap().asked.clone()
    }

    /// Runs `muster ARGUMENTS` against the stub.
    pub(super) async fn muster(&self, arguments: &[&str]) -> (CliStatus, String, String) {
        muster(EndpointArguments::at_socket(self.socket()), arguments).await
    }
}

/// Runs `muster ARGUMENTS`; gives the exit status, stdout and stderr.
pub(super) async fn muster(
    connection: EndpointArguments,
    arguments: &[&str],
) -> (CliStatus, String, String) {
    let (console, out, err) = Console::captured();
    let arguments = std::iter::once("muster").chain(arguments.iter().copied());
    let mut cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
    cli.connection = connection;
    let status = execute(cli, &console).await;
    (status, out.text(), err.text())
}

impl Drop for AgentStub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: UnixListener, script: Arc<Mutex<Script>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let script = Arc::clone(&script);
        let service = service_fn(move |request| respond(request, Arc::clone(&script)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn serve_tcp(listener: TcpListener, script: Arc<Mutex<Script>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let script = Arc::clone(&script);
        let service = service_fn(move |request| respond(request, Arc::clone(&script)));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn respond(
    request: Request<Incoming>,
    script: Arc<Mutex<Script>>,
) -> Result<Response<RequestBody>, Infallible> {
    let (head, body) = request.into_parts();
    let line = format!("{} {}", head.method, head.uri);
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body).into_owned();
    let answer = script.lock().unwrap().answer(RecordedRequest {
        line: line.clone(),
        body,
        headers: head.headers,
    });
    let missing = || StubAnswer::refusal(404, "NoApiError", &format!("no answer for {line}"));
    // Nothing changes in a stub while somebody waits.
    let wait = line
        .split_once("/wait?seen=")
        .and_then(|_| line.rsplit_once("timeout_ms="));
    Ok(response(match (answer, wait) {
        (Some(answer), _) => answer,
        (None, Some((_, ms))) => {
            sleep(Duration::from_millis(ms.parse().unwrap())).await;
            StubAnswer::text("{}")
        }
        (None, None) => missing(),
    }))
}

impl Script {
    /// Notes what was asked, and takes the next answer to it.
    fn answer(&mut self, asked: RecordedRequest) -> Option<StubAnswer> {
        let mut answers = self.answers.iter_mut();
        let found = answers.find(|(known, _)| *known == asked.line);
        let answer = found.and_then(|(_, answers)| match answers.len() {
            0 | 1 => answers.front().cloned(),
            _ => answers.pop_front(),
        });
        self.asked.push(asked);
        answer
    }
}

fn response(answer: StubAnswer) -> Response<RequestBody> {
    let parts = answer.parts.into_iter().map(|part| match part {
        Some(bytes) => Ok(Frame::data(bytes)),
        None => Err(std::io::ErrorKind::ConnectionAborted.into()),
    });
    // A part is sent before the next is made, so that what came before a break arrives.
    let parts = stream::unfold(parts, |mut parts| async {
        tokio::task::yield_now().await;
        parts.next().map(|part| (part, parts))
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(
        Box::pin(parts) as FrameStream
    )));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap();
    for (name, value) in answer.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

type FrameStream =
    std::pin::Pin<Box<dyn futures::Stream<Item = std::io::Result<Frame<Bytes>>> + Send + Sync>>;

/// A job of two tasks with two GPUs each, submitted one second after the epoch.
pub(super) fn summary(key: &str, sub_state: SubState, exit_code: Option<i32>) -> JobSummary {
    JobSummary {
        key: key.parse::<JobKey>().unwrap(),
        sub_state,
        exit_code,
        execution_type: ExecutionType::Start,
        tags: Vec::new(),
        retries: Retries {
            total: 1,
            accountable: 0,
        },
        retry_at: None,
        last_end: None,
        submitted: 1_000,
        created: Some(2_000),
        launched: Some(10_000),
        attempt_launched: Some(10_000),
        completed: (sub_state == SubState::Completed).then_some(100_000),
        vc: "default".parse().unwrap(),
        gpus: 4,
        gpus_idle: 0,
        tasks: 2,
        tasks_failed: 0,
        roles: 1,
        priority: None,
        waiting_for: None,
    }
}

/// A file that is gone when it is dropped.
#[derive(Debug)]
pub(super) struct TextFile(NamedTempFile);

impl TextFile {
    pub(super) fn of(text: &str) -> Self {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Self(file)
    }

    pub(super) fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}
