//! A command beside a container's first process, with streams that its caller holds.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use muster_model::session::TerminalSize;
use tokio::io::{AsyncRead, AsyncWrite};

use super::EngineError;

/// A command to run in a container that runs.
#[derive(Clone, Debug)]
pub struct ExecSpec {
    /// Names it within its container: letters, digits and hyphens, at most 64.
    pub id: String,
    /// The program as the container sees it, and its arguments.
    pub args: Vec<String>,
    /// Environment over that of the container's first process.
    pub environment: Vec<(String, String)>,
    /// Whether it has an input; otherwise it reads nothing.
    pub stdin: bool,
    /// Its terminal, if it has one: then its errors go where its output goes.
    pub terminal: Option<TerminalSize>,
    /// A directory that is there for its pipes alone. The caller removes it once the command is removed.
    pub dir: PathBuf,
}

/// What a caller reads.
pub type ExecOutput = Box<dyn AsyncRead + Send + Unpin>;
/// What a caller writes.
pub type ExecInput = Box<dyn AsyncWrite + Send + Unpin>;

/// The streams of a command.
pub struct ExecStreams {
    /// Its input, if it has one. Its end comes with [`ExecProcess::close_input`], after this was dropped.
    pub stdin: Option<ExecInput>,
    /// Its output. Ends once the command and all that it has started have closed it, or once it was removed.
    pub stdout: ExecOutput,
    /// Its errors, without a terminal.
    pub stderr: Option<ExecOutput>,
}

impl fmt::Debug for ExecStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecStreams")
            .field("stdin", &self.stdin.is_some())
            .field("stderr", &self.stderr.is_some())
            .finish_non_exhaustive()
    }
}

/// A command that was started.
#[derive(Debug)]
pub struct StartedExec {
    /// The command.
    pub process: Box<dyn ExecProcess>,
    /// Its streams.
    pub streams: ExecStreams,
}

/// A command that runs in a container. Dropped, it runs on: [`ExecProcess::remove`] ends it.
#[async_trait]
pub trait ExecProcess: Send + Sync + fmt::Debug {
    /// Waits until it has ended, and tells its exit status: 128+N for signal N.
    async fn wait(&self) -> Result<u32, EngineError>;

    /// Sends it a signal. One that ended already counts as signalled.
    async fn signal(&self, signal: i32) -> Result<(), EngineError>;

    /// Gives its terminal another size.
    async fn resize(&self, size: TerminalSize) -> Result<(), EngineError>;

    /// Ends its input, once what was written is read.
    async fn close_input(&self) -> Result<(), EngineError>;

    /// Kills it if it runs still, and has the engine forget it. Read its output to the end first, or meanwhile: the
    /// engine closes it after two seconds, and what pipes do not hold is lost.
    async fn remove(&self) -> Result<(), EngineError>;
}
