//! A command beside a container's: another child process of this one, without a terminal.

use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use muster_model::session::TerminalSize;
use tokio::sync::watch;

use super::child;
use super::{FakeContainer, refused};
use crate::engine::{
    EngineError, ExecInput, ExecOutput, ExecProcess, ExecSpec, ExecStreams, StartedExec,
};

/// A command that was started.
#[derive(Debug)]
struct FakeExec {
    pid: u32,
    exit: Arc<watch::Sender<Option<u32>>>,
}

/// Starts it.
pub(super) fn start(
    container: &FakeContainer,
    spec: &ExecSpec,
) -> Result<StartedExec, EngineError> {
    if spec.terminal.is_some() {
        return Err(EngineError::Refused {
            call: "run a command in the container",
            reason: "the fake engine has no terminals".to_owned(),
        });
    }
    let failed = |error: std::io::Error| refused("run a command in the container", &error);
    let command = child::command(&container.spec, &spec.args, &container.dir).map_err(failed)?;
    let mut command = tokio::process::Command::from(command);
    command.envs(spec.environment.iter().cloned());
    command.stdin(if spec.stdin {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
    let pid = child.id().unwrap_or_default();
    let none = || failed(std::io::Error::other("it has no output"));
    let streams = ExecStreams {
        stdin: child.stdin.take().map(|pipe| Box::new(pipe) as ExecInput),
        stdout: child
            .stdout
            .take()
            .map(|pipe| Box::new(pipe) as ExecOutput)
            .ok_or_else(none)?,
        stderr: child.stderr.take().map(|pipe| Box::new(pipe) as ExecOutput),
    };
    let exit = Arc::new(watch::Sender::new(None));
    let ended = Arc::clone(&exit);
    let mut first = container.exit.subscribe();
    tokio::spawn(async move {
        let with_container = async { drop(first.wait_for(Option::is_some).await) };
        let status = tokio::select! {
            status = child.wait() => status,
            // The kernel ends it with its container.
            () = with_container => {
                let _ = child.start_kill();
                child.wait().await
            }
        };
        let code = status.map_or(0, |status| child::ended(status).code);
        ended.send_replace(Some(code));
    });
    Ok(StartedExec {
        process: Box::new(FakeExec { pid, exit }),
        streams,
    })
}

#[async_trait]
impl ExecProcess for FakeExec {
    async fn wait(&self) -> Result<u32, EngineError> {
        let mut exit = self.exit.subscribe();
        let ended = exit.wait_for(Option::is_some).await;
        // The sender is this one's own.
        Ok(ended.ok().and_then(|exit| *exit).unwrap_or_default())
    }

    async fn signal(&self, signal: i32) -> Result<(), EngineError> {
        if self.exit.borrow().is_some() {
            return Ok(());
        }
        child::signal(self.pid, signal).map_err(|errno| refused("signal the command", &errno))
    }

    async fn resize(&self, _: TerminalSize) -> Result<(), EngineError> {
        Ok(())
    }

    async fn close_input(&self) -> Result<(), EngineError> {
        // The pipe was dropped, which is its end.
        Ok(())
    }

    async fn remove(&self) -> Result<(), EngineError> {
        self.signal(super::SIGKILL).await?;
        self.wait().await.map(drop)
    }
}
