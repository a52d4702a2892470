//! A bare warp server: answers every request with the same bytes and headers. What the agent's REST API is
//! measured beside.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use hyper::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{Response, StatusCode};
use muster_tests::net::Namespace;
use serde::{Deserialize, Serialize};
use warp::Filter as _;

/// Where it answers in the namespace that it is started in.
pub(crate) const PORT: u16 = 7740;
/// How long it may take until it answers.
const START_LIMIT: Duration = Duration::from_secs(10);
/// What hyper writes of its own accord.
const BY_HYPER: [HeaderName; 4] = [DATE, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING];

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BareRestArguments {
    /// The answer that it gives, as `BareAnswer` in JSON.
    #[arg(long)]
    answer: PathBuf,
}

/// An answer of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BareAnswer {
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl BareAnswer {
    /// What was answered.
    ///
    /// # Errors
    /// When that was no 200.
    pub(crate) fn of(answer: Response<String>) -> Result<Self> {
        let (head, body) = answer.into_parts();
        ensure!(head.status == StatusCode::OK, "{}: {body}", head.status);
        let own = |(name, _): &(&HeaderName, &HeaderValue)| !BY_HYPER.contains(name);
        let headers = head.headers.iter().filter(own);
        let headers = headers.map(|(name, value)| {
            let value = value.to_str()?.to_owned();
            Ok((name.to_string(), value))
        });
        Ok(Self {
            headers: headers.collect::<Result<_>>()?,
            body,
        })
    }

    fn response(self) -> Result<Response<Bytes>> {
        let mut response = Response::builder();
        for (name, value) in self.headers {
            response = response.header(name, value);
        }
        Ok(response.body(self.body.into())?)
    }
}

/// Serves until it is killed.
pub(crate) async fn run(arguments: &BareRestArguments) -> Result<()> {
    let answer: BareAnswer = serde_json::from_slice(&std::fs::read(&arguments.answer)?)?;
    let response = answer.response()?;
    let answers = warp::any().map(move || response.clone());
    warp::serve(answers).run(([127, 0, 0, 1], PORT)).await;
    Ok(())
}

/// One as a process of its own. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct BareRest(Child);

impl BareRest {
    /// Starts one in a namespace, with a file of its own in `folder`.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub(crate) fn start(namespace: &Namespace, folder: &Path, answer: &BareAnswer) -> Result<Self> {
        let file = folder.join("bare-answer.json");
        std::fs::write(&file, serde_json::to_vec(answer)?)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("bare-rest")
            .arg("--answer")
            .arg(file)
            .stdin(Stdio::null());
        let started = namespace.enter(|| command.spawn())?;
        let server = Self(started.context("the bare server")?);
        let begun = Instant::now();
        let connect = || std::net::TcpStream::connect(("127.0.0.1", PORT)).is_ok();
        while !namespace.enter(connect)? {
            ensure!(begun.elapsed() < START_LIMIT, "the bare server is silent");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for BareRest {
    fn drop(&mut self) {
        // It may have ended already; there is nobody left to tell.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
