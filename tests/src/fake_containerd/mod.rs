//! A containerd that makes no containers: the part of its API that an agent uses, on sockets of the
//! same kind, with a stand-in for muster-init where a container's first process would be. So agents
//! as they are can be given more tasks than a machine could run.
//!
//! It has every image. What a task is to run is not run; the task says that it runs, until it is told
//! to stop.

mod answer;
mod containers;
mod image;
mod stand_in;
mod wire;

use std::convert::Infallible;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::oneshot;

use answer::{CallRefusal, FixedBody};
use containers::Containers;

/// Serves on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct FakeContainerd {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeContainerd {
    /// Listens on these sockets; on each there is an engine of its own.
    ///
    /// # Errors
    /// When it cannot.
    pub fn start(sockets: &[PathBuf]) -> Result<Self> {
        let listen = |socket: &PathBuf| {
            let listener = UnixListener::bind(socket)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listeners: Result<Vec<UnixListener>> = sockets.iter().map(listen).collect();
        let listeners = listeners.context("the sockets of the fake containerd")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                for listener in listeners {
                    tokio::spawn(serve(listener));
                }
                // An error is the sender's end, which means the same.
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new().name("containerd".to_owned());
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread.spawn(serve)?),
        })
    }
}

impl Drop for FakeContainerd {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has panicked; there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: UnixListener) -> Result<()> {
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let containers = Arc::new(Containers::default());
    loop {
        let (stream, _) = listener.accept().await?;
        let containers = Arc::clone(&containers);
        let respond = service_fn(move |request| respond(Arc::clone(&containers), request));
        let mut server = http2::Builder::new(TokioExecutor::new());
        // Each running task is waited for by a call of its own.
        server.max_concurrent_streams(u32::MAX);
        tokio::spawn(server.serve_connection(TokioIo::new(stream), respond));
    }
}

async fn respond(
    containers: Arc<Containers>,
    request: Request<Incoming>,
) -> Result<Response<FixedBody>, Infallible> {
    let path = request.uri().path().to_owned();
    let answer = match request.into_body().collect().await {
        Ok(body) => match answer::message(&body.to_bytes()) {
            Some(message) => call(&containers, &path, message).await,
            None => Err(CallRefusal::Malformed),
        },
        Err(_) => Err(CallRefusal::Malformed),
    };
    Ok(answer::response(answer))
}

/// Answers one call.
async fn call(containers: &Containers, path: &str, message: &[u8]) -> answer::CallResult {
    let path = path.strip_prefix("/containerd.services.");
    let path = path.ok_or(CallRefusal::Unknown)?;
    match path.split_once('/').ok_or(CallRefusal::Unknown)? {
        ("version.v1.Version" | "images.v1.Images" | "content.v1.Content", _) => {
            image::call(path, message)
        }
        ("snapshots.v1.Snapshots", name) => image::snapshot(name),
        ("containers.v1.Containers", name) => containers.record(name, message),
        // Waits, so it holds nothing.
        ("tasks.v1.Tasks", "Wait") => containers.wait(message).await,
        ("tasks.v1.Tasks", name) => containers.process(name, message),
        _ => Err(CallRefusal::Unknown),
    }
}
