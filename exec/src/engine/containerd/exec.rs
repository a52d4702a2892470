//! Commands in containers that run: containerd calls them exec processes.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use containerd_client::services::v1::{
    CloseIoRequest, DeleteProcessRequest, ExecProcessRequest, GetContainerRequest, KillRequest,
    ResizePtyRequest, StartRequest, WaitRequest,
};
use muster_model::id::AttemptUid;
use muster_model::session::TerminalSize;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use prost_types::Any;
use serde_json::{Value, json};
use tokio::net::unix::pipe;
use tonic::Code;

use super::Containerd;
use super::connection::{CallFault, EngineConnection};
use crate::engine::{
    EngineError, ExecInput, ExecOutput, ExecProcess, ExecSpec, ExecStreams, StartedExec,
};

const PROCESS_TYPE: &str = "types.containerd.io/opencontainers/runtime-spec/1/Process";
const SIGKILL: u32 = 9;
/// Root alone: what goes through a pipe is a user's.
const MODE_PRIVATE: u32 = 0o700;

/// A command of a container.
#[derive(Debug)]
struct ContainerdExec {
    connection: EngineConnection,
    container: String,
    id: String,
}

/// The pipes of a command, by their paths.
struct ExecPipes {
    stdin: Option<PathBuf>,
    stdout: PathBuf,
    stderr: Option<PathBuf>,
}

impl ExecPipes {
    fn make(spec: &ExecSpec) -> io::Result<Self> {
        let mut dir = DirBuilder::new();
        dir.recursive(true).mode(MODE_PRIVATE).create(&spec.dir)?;
        let pipe = |name: &str| {
            let path = spec.dir.join(name);
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
            Ok::<_, io::Error>(path)
        };
        Ok(Self {
            stdin: spec.stdin.then(|| pipe("stdin")).transpose()?,
            stdout: pipe("stdout")?,
            stderr: spec
                .terminal
                .is_none()
                .then(|| pipe("stderr"))
                .transpose()?,
        })
    }

    /// Opens them on this side. The shim waits for the readers when it opens the other ends, and reads the input
    /// whether or not anybody has opened it.
    fn open(&self) -> io::Result<ExecStreams> {
        let reader = |path: &Path| pipe::OpenOptions::new().open_receiver(path);
        // With a reader of its own, opening does not depend on the shim's.
        let writer = |path: &Path| {
            let mut options = pipe::OpenOptions::new();
            options.read_write(true).open_sender(path)
        };
        let stdin = self.stdin.as_deref().map(writer).transpose()?;
        let stderr = self.stderr.as_deref().map(reader).transpose()?;
        Ok(ExecStreams {
            stdin: stdin.map(|pipe| Box::new(pipe) as ExecInput),
            stdout: Box::new(reader(&self.stdout)?),
            stderr: stderr.map(|pipe| Box::new(pipe) as ExecOutput),
        })
    }
}

impl Containerd {
    /// Starts a command in a container.
    pub(super) async fn start_exec(
        &self,
        uid: &AttemptUid,
        spec: &ExecSpec,
    ) -> Result<StartedExec, EngineError> {
        let process = self.exec_process(uid, spec).await?;
        let pipes = ExecPipes::make(spec).map_err(|error| unfit(&error))?;
        let text = |path: Option<&PathBuf>| path.map(|path| path.display().to_string());
        let request = self.connection.request(ExecProcessRequest {
            container_id: uid.to_string(),
            stdin: text(pipes.stdin.as_ref()).unwrap_or_default(),
            stdout: text(Some(&pipes.stdout)).unwrap_or_default(),
            stderr: text(pipes.stderr.as_ref()).unwrap_or_default(),
            terminal: spec.terminal.is_some(),
            spec: Some(Any {
                type_url: PROCESS_TYPE.to_owned(),
                value: process.to_string().into_bytes(),
            }),
            exec_id: spec.id.clone(),
        });
        let mut tasks = self.connection.client().tasks();
        let made = self.connection.call(tasks.exec(request)).await;
        self.exec_answer(uid, made).await?;
        let exec = ContainerdExec {
            connection: self.connection.clone(),
            container: uid.to_string(),
            id: spec.id.clone(),
        };
        let started = async {
            // Before the start, which waits for them.
            let streams = pipes.open().map_err(|error| unfit(&error))?;
            let started = exec.start().await;
            self.exec_answer(uid, started).await?;
            Ok(streams)
        };
        match started.await {
            Ok(streams) => Ok(StartedExec {
                process: Box::new(exec),
                streams,
            }),
            Err(error) => {
                // The caller gets no handle of it, so that nothing else would end it.
                let _ = exec.remove().await;
                Err(error)
            }
        }
    }

    /// Ends a command that an earlier life of the agent has started.
    pub(super) async fn forget_exec(&self, uid: &AttemptUid, id: &str) -> Result<(), EngineError> {
        let exec = ContainerdExec {
            connection: self.connection.clone(),
            container: uid.to_string(),
            id: id.to_owned(),
        };
        exec.remove().await
    }

    async fn exec_answer<T>(
        &self,
        uid: &AttemptUid,
        answer: Result<T, CallFault>,
    ) -> Result<T, EngineError> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(fault) if fault.is(Code::NotFound) => Err(self.absent(uid).await),
            Err(fault) => Err(self
                .connection
                .error("run a command in the container", fault)),
        }
    }

    /// The command as the runtime takes it: what the container's first process may do, with other arguments.
    async fn exec_process(&self, uid: &AttemptUid, spec: &ExecSpec) -> Result<Value, EngineError> {
        let request = self.connection.request(GetContainerRequest {
            id: uid.to_string(),
        });
        let answer = self.connection.call(self.containers().get(request)).await;
        let record = self.exec_answer(uid, answer).await?.container;
        let document = record.and_then(|record| record.spec);
        let document = document.map(|document| document.value).unwrap_or_default();
        let mut document: Value = serde_json::from_slice(&document).map_err(|error| {
            let reason = format!("its specification cannot be read: {error}");
            EngineError::Unfit {
                call: "run a command in the container",
                reason,
            }
        })?;
        let mut process = document["process"].take();
        process["args"] = json!(spec.args);
        process["terminal"] = json!(spec.terminal.is_some());
        if let Some(TerminalSize { width, height }) = spec.terminal {
            process["consoleSize"] = json!({ "width": width, "height": height });
        }
        if let Some(variables) = process["env"].as_array_mut() {
            let own = spec.environment.iter();
            // Of two of one name the last one counts.
            variables.extend(own.map(|(name, value)| json!(format!("{name}={value}"))));
        }
        Ok(process)
    }
}

fn unfit(error: &io::Error) -> EngineError {
    EngineError::Unfit {
        call: "make the pipes of a command",
        reason: error.to_string(),
    }
}

impl ContainerdExec {
    async fn start(&self) -> Result<(), CallFault> {
        let request = self.connection.request(StartRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
        });
        let mut tasks = self.connection.client().tasks();
        let started = self.connection.call(tasks.start(request)).await;
        started.map(drop)
    }

    async fn kill(&self, signal: u32) -> Result<(), EngineError> {
        let request = self.connection.request(KillRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
            signal,
            all: false,
        });
        let mut tasks = self.connection.client().tasks();
        let killed = self.connection.call(tasks.kill(request)).await;
        self.unless_gone("signal the command", killed)
    }

    /// An answer of which one is that it has ended already.
    fn unless_gone(
        &self,
        call: &'static str,
        answer: Result<(), CallFault>,
    ) -> Result<(), EngineError> {
        match answer {
            Err(fault) if is_gone(&fault) => Ok(()),
            Err(fault) => Err(self.connection.error(call, fault)),
            Ok(()) => Ok(()),
        }
    }
}

/// Whether the process has ended, or is not known.
fn is_gone(fault: &CallFault) -> bool {
    fault.is(Code::NotFound)
        || matches!(fault, CallFault::Said(status) if status.message().contains("process already finished"))
}

#[async_trait]
impl ExecProcess for ContainerdExec {
    async fn wait(&self) -> Result<u32, EngineError> {
        let request = self.connection.request(WaitRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
        });
        let mut tasks = self.connection.client().tasks();
        let ended = self.connection.call_unbounded(tasks.wait(request)).await;
        let ended = ended.map_err(|fault| self.connection.error("wait for the command", fault))?;
        Ok(ended.exit_status)
    }

    async fn signal(&self, signal: i32) -> Result<(), EngineError> {
        self.kill(signal.unsigned_abs()).await
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), EngineError> {
        let request = self.connection.request(ResizePtyRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
            width: size.width.into(),
            height: size.height.into(),
        });
        let mut tasks = self.connection.client().tasks();
        let resized = self.connection.call(tasks.resize_pty(request)).await;
        self.unless_gone("resize the terminal", resized)
    }

    async fn close_input(&self) -> Result<(), EngineError> {
        let request = self.connection.request(CloseIoRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
            stdin: true,
        });
        let mut tasks = self.connection.client().tasks();
        let closed = self.connection.call(tasks.close_io(request)).await;
        self.unless_gone("end the input of the command", closed)
    }

    async fn remove(&self) -> Result<(), EngineError> {
        self.kill(SIGKILL).await?;
        // One that was killed has ended once its wait says so; one that is not known has no wait.
        let _ = self.wait().await;
        let request = self.connection.request(DeleteProcessRequest {
            container_id: self.container.clone(),
            exec_id: self.id.clone(),
        });
        let mut tasks = self.connection.client().tasks();
        let removed = self.connection.call(tasks.delete_process(request)).await;
        self.unless_gone("forget the command", removed.map(drop))
    }
}
