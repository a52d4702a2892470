//! The line to containerd: one lazy channel, a namespace, deadlines.
//!
//! The channel connects on use and again after a break, so a restart of containerd only fails
//! the calls that meet it. Calls that move or unpack data may take minutes; for those the
//! deadline is on containerd itself: as long as it answers a version call in between, they go
//! on.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use containerd_client::Client;
use containerd_client::tonic::metadata::{Ascii, MetadataValue};
use containerd_client::tonic::transport::{Channel, Endpoint};
use containerd_client::tonic::{Code, Request, Response, Status};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{ContentLease, ImageError};

/// Replies of containerd are lists of small records at most.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Where containerd is, and how to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its gRPC socket.
    pub socket: PathBuf,
    /// The namespace that everything lives in.
    pub namespace: String,
    /// The snapshotter that layers are unpacked into.
    pub snapshotter: String,
    /// How long it may take over a simple call.
    pub call_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            socket: "/run/containerd/containerd.sock".into(),
            namespace: "muster".to_owned(),
            snapshotter: "overlayfs".to_owned(),
            call_timeout: Duration::from_secs(10),
        }
    }
}

/// A call that failed, and in which of the ways that callers react to.
#[derive(Debug)]
pub(super) struct FailedCall {
    pub(super) kind: FaultKind,
    pub(super) error: ImageError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    Missing,
    Exists,
    /// For content: it is not what was expected.
    Precondition,
    /// Somebody else writes the same content now.
    Busy,
    Other,
}

impl From<FailedCall> for ImageError {
    fn from(fault: FailedCall) -> Self {
        fault.error
    }
}

/// Turns "there is none" into `None`.
pub(super) fn optional<T>(answer: Result<T, FailedCall>) -> Result<Option<T>, ImageError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(fault) if fault.kind == FaultKind::Missing => Ok(None),
        Err(fault) => Err(fault.error),
    }
}

/// Cheap to clone; all clones share one channel.
#[derive(Clone)]
pub(super) struct ImageConnection {
    channel: Channel,
    namespace: MetadataValue<Ascii>,
    settings: Arc<Settings>,
}

impl std::fmt::Debug for ImageConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl ImageConnection {
    /// Needs to run in a tokio runtime. Does not connect yet.
    pub(super) fn new(settings: Settings) -> Result<Self, ImageError> {
        let namespace = settings
            .namespace
            .parse()
            .map_err(|_| ImageError::BadSetting {
                field: "namespace",
                value: settings.namespace.clone(),
                reason: "it must be plain ASCII".to_owned(),
            })?;
        let socket = settings.socket.clone();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The connector ignores the address; tonic wants one.
        let channel = Endpoint::from_static("http://containerd")
            .connect_timeout(settings.call_timeout)
            .connect_with_connector_lazy(connector);
        Ok(Self {
            channel,
            namespace,
            settings: Arc::new(settings),
        })
    }

    pub(super) fn snapshotter(&self) -> &str {
        &self.settings.snapshotter
    }

    pub(super) fn client(&self) -> Client {
        Client::from(self.channel.clone())
    }

    pub(super) fn content(
        &self,
    ) -> containerd_client::services::v1::content_client::ContentClient<Channel> {
        self.client()
            .content()
            .max_decoding_message_size(REPLY_BYTES_MAX)
    }

    /// A request in our namespace.
    pub(super) fn request<T>(&self, body: T) -> Request<T> {
        let mut request = Request::new(body);
        request
            .metadata_mut()
            .insert("containerd-namespace", self.namespace.clone());
        request
    }

    /// A request whose results the lease keeps from the garbage collector.
    pub(super) fn leased<T>(&self, body: T, lease: &ContentLease) -> Request<T> {
        let mut request = self.request(body);
        request
            .metadata_mut()
            .insert("containerd-lease", lease.header());
        request
    }

    /// Waits for the answer of a simple call, at most the set time.
    pub(super) async fn call<T>(
        &self,
        name: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, FailedCall> {
        match timeout(self.settings.call_timeout, answer).await {
            Ok(answer) => answer
                .map(Response::into_inner)
                .map_err(|s| self.fault(name, &s)),
            Err(_) => Err(self.silent(name)),
        }
    }

    /// Waits for the answer of a call that moves data, as long as containerd is alive.
    pub(super) async fn long_call<T>(
        &self,
        name: &'static str,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, FailedCall> {
        tokio::pin!(answer);
        loop {
            match timeout(self.settings.call_timeout, &mut answer).await {
                Ok(answer) => return answer.map_err(|status| self.fault(name, &status)),
                Err(_) => self.check_alive().await?,
            }
        }
    }

    async fn check_alive(&self) -> Result<(), FailedCall> {
        let mut client = self.client().version();
        self.call("tell its version", client.version(Request::new(())))
            .await
            .map(drop)
    }

    fn silent(&self, name: &str) -> FailedCall {
        let seconds = self.settings.call_timeout.as_secs();
        let reason = format!("no answer within {seconds} s when asked to {name}");
        FailedCall {
            kind: FaultKind::Other,
            error: self.unavailable(reason),
        }
    }

    fn unavailable(&self, reason: String) -> ImageError {
        ImageError::Unavailable {
            socket: self.settings.socket.display().to_string(),
            reason,
        }
    }

    /// Sorts an answer that was a refusal. containerd calls content that is being written
    /// elsewhere "unavailable" too, which only its words tell from a broken line.
    pub(super) fn fault(&self, call: &'static str, status: &Status) -> FailedCall {
        let reason = status.message().to_owned();
        let kind = match status.code() {
            Code::NotFound => FaultKind::Missing,
            Code::AlreadyExists => FaultKind::Exists,
            Code::FailedPrecondition => FaultKind::Precondition,
            Code::Unavailable if reason.contains(" locked") => FaultKind::Busy,
            _ => FaultKind::Other,
        };
        let broken = matches!(status.code(), Code::Unavailable | Code::Cancelled)
            || std::error::Error::source(status).is_some();
        let error = if broken && kind == FaultKind::Other {
            self.unavailable(reason)
        } else {
            ImageError::Refused { call, reason }
        };
        FailedCall { kind, error }
    }
}
