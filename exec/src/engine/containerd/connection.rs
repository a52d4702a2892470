//! The connection to containerd: made when first needed, remade when broken, and never
//! waited for longer than the deadline.

use std::error::Error as _;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use containerd_client::Client;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

use crate::engine::EngineError;

/// Largest answer taken. A record carries its whole specification, some 20 KiB, and a machine
/// may list thousands.
pub(super) const ANSWER_BYTES_MAX: usize = 256 << 20;

/// The header that names the namespace of a call.
const NAMESPACE_HEADER: &str = "containerd-namespace";

/// Why a call brought no answer, before it is put in the port's words.
#[derive(Debug)]
pub(super) enum CallFault {
    /// containerd did not answer; it may have acted.
    Silent(String),
    /// containerd said no.
    Said(Status),
}

impl CallFault {
    /// Whether containerd answered with this code.
    pub(super) fn is(&self, code: Code) -> bool {
        matches!(self, Self::Said(status) if status.code() == code)
    }
}

impl From<Status> for CallFault {
    fn from(status: Status) -> Self {
        // Only a status made on this side, from a broken connection, has a source or this text.
        let local = status.source().is_some()
            || status.message().starts_with("Service was not ready")
            || matches!(
                status.code(),
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled
            );
        if !local {
            return Self::Said(status);
        }
        let cause = status.source().map(|source| format!(": {source}"));
        Self::Silent(format!("{}{}", status.message(), cause.unwrap_or_default()))
    }
}

/// A lazy connection.
#[derive(Clone, Debug)]
pub(super) struct EngineConnection {
    socket: PathBuf,
    namespace: MetadataValue<Ascii>,
    deadline: Duration,
    channel: Channel,
}

impl EngineConnection {
    pub(super) fn new(
        socket: PathBuf,
        namespace: &str,
        deadline: Duration,
    ) -> Result<Self, String> {
        let namespace = namespace
            .parse()
            .map_err(|_| format!("{namespace:?} is no name for a namespace"))?;
        let path = socket.clone();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        // The address is not used: the connector knows the socket.
        let channel =
            Endpoint::from_static("http://containerd").connect_with_connector_lazy(connector);
        Ok(Self {
            socket,
            namespace,
            deadline,
            channel,
        })
    }

    pub(super) fn client(&self) -> Client {
        Client::from(self.channel.clone())
    }

    /// `message` addressed to the namespace.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request
            .metadata_mut()
            .insert(NAMESPACE_HEADER, self.namespace.clone());
        request
    }

    /// Waits for an answer until the deadline.
    pub(super) async fn call<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>> + Send,
    ) -> Result<T, CallFault> {
        match tokio::time::timeout(self.deadline, call).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(CallFault::Silent(format!(
                "no answer within {:?}",
                self.deadline
            ))),
        }
    }

    /// Waits for an answer as long as the connection holds.
    pub(super) async fn call_unbounded<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>> + Send,
    ) -> Result<T, CallFault> {
        Ok(call.await?.into_inner())
    }

    /// `fault` in the port's words; `call` says what was asked, as in "refused to ...".
    pub(super) fn error(&self, call: &'static str, fault: CallFault) -> EngineError {
        match fault {
            CallFault::Silent(reason) => EngineError::Unavailable {
                socket: self.socket.display().to_string(),
                reason,
            },
            CallFault::Said(status) => EngineError::Refused {
                call,
                reason: status.message().to_owned(),
            },
        }
    }
}
