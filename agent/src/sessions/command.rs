//! A person's command in a task's container.

use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use muster_exec::engine::{
    Engine, EngineError, ExecInput, ExecOutput, ExecProcess, ExecSpec, ExecStreams, StartedExec,
};
use muster_init::task_dir::{CONTAINER_INIT, TaskDir};
use muster_model::id::AttemptUid;
use muster_model::session::{ExecWish, SessionChannel, SessionEnd, TerminalSize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

use super::frames;
use crate::causes::causes;

/// Bytes that are read at a time.
const READ_BYTES: usize = 32 << 10;
/// How long a command may take to end by itself once its person has gone.
const HANG_UP_GRACE: Duration = Duration::from_secs(5);
/// How long the output of a command that has ended may be silent before it counts as ended, too.
const QUIET: Duration = Duration::from_millis(500);
/// How long the rest of it may take to arrive once the engine has closed it.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// How long the end of a container may take to be known once a command of it was ended by a signal.
const CONTAINER_END_LIMIT: Duration = Duration::from_secs(2);
const SIGHUP: i32 = 1;
/// Above this the status is that of a signal. All processes of a container that ends are sent some.
const SIGNAL_BASE: u32 = 128;
const TERM: &str = "TERM";

/// A command that was started.
#[derive(Debug)]
pub(super) struct CommandSession {
    engine: Arc<dyn Engine>,
    uid: AttemptUid,
    started: StartedExec,
    /// Removed with it.
    pipes: PipesDir,
}

/// A directory of pipes, until this is dropped.
#[derive(Debug)]
struct PipesDir(PathBuf);

impl Drop for PipesDir {
    fn drop(&mut self) {
        // What is left of it is removed with the task's directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl CommandSession {
    /// Starts the command, or a shell.
    pub(super) async fn start(
        (engine, dir): (Arc<dyn Engine>, TaskDir),
        uid: &AttemptUid,
        wish: &ExecWish,
    ) -> Result<Self, EngineError> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let enter = [CONTAINER_INIT, "enter"].map(str::to_owned);
        let terminal = wish.terminal.as_ref();
        let term = terminal.map(|terminal| (TERM.to_owned(), terminal.term.clone()));
        let pipes = PipesDir(dir.exec().join(&id));
        let spec = ExecSpec {
            id,
            args: enter.into_iter().chain(wish.command.clone()).collect(),
            environment: term.into_iter().collect(),
            stdin: wish.stdin,
            terminal: terminal.map(|terminal| terminal.size),
            dir: pipes.0.clone(),
        };
        let started = engine.exec(uid, &spec).await?;
        if let Some(size) = spec.terminal {
            // Not every runtime heeds the size that it is given at the start.
            let _ = started.process.resize(size).await;
        }
        Ok(Self {
            engine,
            uid: uid.clone(),
            started,
            pipes,
        })
    }

    /// Ends the command of a person who has gone before it began.
    pub(super) async fn give_up(self) {
        hang_up(&*self.started.process).await;
    }

    /// Passes frames on until the command has ended, or its person has gone.
    pub(super) async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin,
    {
        let Self {
            engine,
            uid,
            started,
            pipes: _pipes,
        } = self;
        let StartedExec { process, streams } = started;
        let ExecStreams {
            stdin,
            stdout,
            stderr,
        } = streams;
        let (mut reader, mut writer) = tokio::io::split(stream);
        let typed = incoming(&mut reader, stdin, &*process);
        let ended = async {
            let progress = OutputProgress::default();
            let written = pin!(outgoing((stdout, stderr), &mut writer, &progress));
            let end = ended(&*process, written, &progress).await?;
            Some(told(&*engine, &uid, end).await)
        };
        let end = tokio::select! {
            biased;
            end = ended => end,
            () = typed => None,
        };
        match end {
            Some(end) => {
                let end = end.to_json();
                let told = frames::write(&mut writer, SessionChannel::Status, end.as_bytes()).await;
                if told.is_ok() {
                    let _ = writer.shutdown().await;
                }
            }
            None => hang_up(&*process).await,
        }
    }
}

type CommandEnd = Result<u32, EngineError>;

/// What is known of the passing on of output while it is underway.
#[derive(Debug, Default)]
struct OutputProgress {
    /// Parts that were read.
    reads: AtomicU64,
    /// Whether a part waits for the person to take it.
    is_writing: AtomicBool,
}

impl OutputProgress {
    /// Returns once there was nothing to pass on for a while.
    async fn quiet(&self) {
        loop {
            let before = self.reads.load(Ordering::Relaxed);
            sleep(QUIET).await;
            let is_idle = !self.is_writing.load(Ordering::Relaxed);
            if is_idle && self.reads.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    async fn write<W: AsyncWrite + Unpin>(
        &self,
        writer: &mut W,
        channel: SessionChannel,
        payload: &[u8],
    ) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.is_writing.store(true, Ordering::Relaxed);
        frames::write(writer, channel, payload).await?;
        self.is_writing.store(false, Ordering::Relaxed);
        Ok(())
    }
}

/// Waits for the end, and until all output has been passed on. None if the person has gone.
async fn ended(
    process: &dyn ExecProcess,
    mut written: std::pin::Pin<&mut impl Future<Output = io::Result<()>>>,
    progress: &OutputProgress,
) -> Option<CommandEnd> {
    let mut waited = pin!(process.wait());
    let mut is_written = false;
    let end = loop {
        tokio::select! {
            end = &mut waited => break end,
            all = &mut written, if !is_written => match all {
                Ok(()) => is_written = true,
                Err(_) => return None,
            },
        }
    };
    if !is_written {
        tokio::select! {
            all = &mut written => {
                all.ok()?;
                is_written = true;
            }
            // A process that the command has started still holds its output open.
            () = progress.quiet() => {}
        }
    }
    // containerd gives readers two seconds then, and closes the pipes. What was not read by then would be lost.
    let removed = async {
        if let Err(error) = process.remove().await {
            tracing::warn!(error = causes(&error), "a command of a session is left");
        }
    };
    if is_written {
        removed.await;
    } else {
        let both = async { tokio::join!(removed, written) };
        timeout(DRAIN_LIMIT, both).await.ok()?.1.ok()?;
    }
    Some(end)
}

/// An end in the words of a session.
async fn told(engine: &dyn Engine, uid: &AttemptUid, end: CommandEnd) -> SessionEnd {
    let container_ended = async {
        let ended = timeout(CONTAINER_END_LIMIT, engine.wait(uid)).await;
        !matches!(ended, Err(_) | Ok(Err(EngineError::Unavailable { .. })))
    };
    match end {
        Ok(code) if code <= SIGNAL_BASE => SessionEnd::Exited(code),
        _ if container_ended.await => SessionEnd::Failed("the task has ended".to_owned()),
        Ok(code) => SessionEnd::Exited(code),
        Err(error) => SessionEnd::Failed(causes(&error)),
    }
}

/// Passes on what the command writes, until it has closed both.
async fn outgoing<W: AsyncWrite + Unpin>(
    (mut stdout, stderr): (ExecOutput, Option<ExecOutput>),
    writer: &mut W,
    progress: &OutputProgress,
) -> io::Result<()> {
    let mut out = vec![0; READ_BYTES];
    let mut err = vec![0; READ_BYTES];
    let (mut out_open, mut err_open) = (true, stderr.is_some());
    let mut stderr = stderr.unwrap_or_else(|| Box::new(tokio::io::empty()));
    while out_open || err_open {
        tokio::select! {
            read = stdout.read(&mut out), if out_open => match read.unwrap_or(0) {
                0 => out_open = false,
                count => progress.write(writer, SessionChannel::Stdout, &out[..count]).await?,
            },
            read = stderr.read(&mut err), if err_open => match read.unwrap_or(0) {
                0 => err_open = false,
                count => progress.write(writer, SessionChannel::Stderr, &err[..count]).await?,
            },
        }
    }
    Ok(())
}

/// Passes on what the person types, until the person has gone.
async fn incoming<R: AsyncRead + Unpin>(
    reader: &mut R,
    mut stdin: Option<ExecInput>,
    process: &dyn ExecProcess,
) {
    let mut payload = Vec::new();
    while let Ok(Some(channel)) = frames::read(reader, &mut payload).await {
        match channel {
            SessionChannel::Stdin => {
                let Some(input) = &mut stdin else { continue };
                let written = async {
                    input.write_all(&payload).await?;
                    input.flush().await
                };
                // A command that has closed its input goes on without.
                if written.await.is_err() {
                    stdin = None;
                }
            }
            SessionChannel::Close => {
                if payload == [SessionChannel::Stdin.number()] && stdin.take().is_some() {
                    let _ = process.close_input().await;
                }
            }
            SessionChannel::Resize => {
                if let Ok(size) = serde_json::from_slice::<TerminalSize>(&payload) {
                    let _ = process.resize(size).await;
                }
            }
            SessionChannel::Stdout | SessionChannel::Stderr | SessionChannel::Status => {}
        }
    }
}

/// Ends a command whose person has gone: as a terminal that is hung up, and by force then. What it has started on its
/// own, by nohup say, goes on.
async fn hang_up(process: &dyn ExecProcess) {
    let _ = process.signal(SIGHUP).await;
    let _ = timeout(HANG_UP_GRACE, process.wait()).await;
    if let Err(error) = process.remove().await {
        tracing::warn!(error = causes(&error), "a command of a session is left");
    }
}
