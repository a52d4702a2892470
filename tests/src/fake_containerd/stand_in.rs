//! What says to an agent that a task runs, as muster-init does, and runs nothing.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_init::exit_report::TaskPhase;
use muster_init::frame::{Decoder, PROTOCOL};
use muster_init::message::{InitHello, ProgressMessage, Ready, ToAgent, ToInit};
use muster_init::task_dir::AGENT_SOCKET;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::containers::Exit;

/// The exit status of a shell that SIGTERM ended.
const TERMINATED: u32 = 143;
/// That of a muster-init that cannot go on.
const FAILED: u32 = 1;
const READ_BYTES: usize = 4 << 10;

/// Speaks with the agent that listens in `ctl` until the process has ended.
pub(super) fn spawn(ctl: PathBuf, exit: Exit) {
    tokio::spawn(async move {
        let mut ended = exit.subscribe();
        let code = tokio::select! {
            code = live(&ctl) => code,
            _ = ended.wait_for(Option::is_some) => return,
        };
        let code = code.unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", ctl.display());
            FAILED
        });
        exit.send_replace(Some(code));
    });
}

async fn live(ctl: &Path) -> Result<u32> {
    let mut stream = connect(ctl).await?;
    let hello = InitHello {
        protocol: PROTOCOL,
        phase: TaskPhase::Setup,
        launched_ms: 0,
    };
    stream.write_all(&ToAgent::Hello(hello).encode()?).await?;
    let mut decoder = Decoder::default();
    loop {
        while let Some(frame) = decoder.next_frame()? {
            let answer = match ToInit::decode(&frame)? {
                Some(ToInit::Setup(_)) => ToAgent::Ready(Ready {
                    shell: "sh".to_owned(),
                }),
                Some(ToInit::Go(_)) => ToAgent::Progress(ProgressMessage {
                    phase: TaskPhase::UserCommands,
                    at_ms: since_epoch_ms(),
                }),
                Some(ToInit::Stop(_)) => return Ok(TERMINATED),
                Some(ToInit::Lease(_) | ToInit::Hold(_)) | None => continue,
            };
            stream.write_all(&answer.encode()?).await?;
        }
        stream.readable().await?;
        if !read(&stream, &mut decoder)? {
            return Ok(FAILED);
        }
    }
}

/// Takes what is there; `false` once the agent is gone. Apart, so that nobody keeps the buffer while
/// it waits.
fn read(stream: &UnixStream, decoder: &mut Decoder) -> Result<bool> {
    let mut buffer = [0; READ_BYTES];
    match stream.try_read(&mut buffer) {
        Ok(0) => Ok(false),
        Ok(count) => {
            decoder.push(&buffer[..count]);
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// By a short path: socket addresses end at 108 bytes.
async fn connect(ctl: &Path) -> Result<UnixStream> {
    let dir = File::open(ctl)?;
    let path = format!("/proc/self/fd/{}/{AGENT_SOCKET}", dir.as_raw_fd());
    Ok(UnixStream::connect(path).await?)
}

fn since_epoch_ms() -> u64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
