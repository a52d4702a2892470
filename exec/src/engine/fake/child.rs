//! A container's command as a child process, in a process group of its own, with its logger.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use command_fds::{CommandFdExt as _, FdMapping};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::sync::watch;

use super::proc;
use crate::engine::{BindMount, ContainerSpec, EngineExit, Logger};

/// How often a killed group is looked at until it is gone.
const GROUP_POLL: Duration = Duration::from_millis(1);
/// As long as containerd waits for a logger.
const LOGGER_START_MAX: Duration = Duration::from_secs(10);
/// For commands that are given no PATH.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

type ExitSender = watch::Sender<Option<EngineExit>>;

/// Starts the logger, waits until it is ready, starts the command. Its end is sent to `exit`.
pub(super) async fn spawn(spec: &ContainerSpec, dir: &Path, exit: ExitSender) -> io::Result<u32> {
    let (stdout, stdout_writer) = io::pipe()?;
    let (stderr, stderr_writer) = io::pipe()?;
    let ready = spawn_logger(&spec.logger, stdout, stderr)?;
    let ready = tokio::task::spawn_blocking(move || wait_for_end(ready));
    tokio::time::timeout(LOGGER_START_MAX, ready)
        .await
        .map_err(|_| io::Error::other("the logger does not get ready"))??
        .map_err(io::Error::other)?;
    let mut command = command(spec, &spec.args, dir)?;
    command
        .stdin(Stdio::null())
        .stdout(stdout_writer)
        .stderr(stderr_writer);
    let mut command = tokio::process::Command::from(command);
    let mut child = command.kill_on_drop(true).spawn()?;
    let pid = child
        .id()
        .ok_or_else(|| io::Error::other("it has no pid"))?;
    tokio::spawn(async move {
        let status = child.wait().await;
        exit.send_replace(Some(status.map_or_else(|_| killed_by(0), ended)));
    });
    Ok(pid)
}

/// As containerd does: output on descriptors 3 and 4, and 5 to close once ready.
fn spawn_logger(logger: &Logger, stdout: PipeReader, stderr: PipeReader) -> io::Result<PipeReader> {
    let (ready, ready_writer) = io::pipe()?;
    let mapping = |child_fd, parent_fd: OwnedFd| FdMapping {
        parent_fd,
        child_fd,
    };
    let mut command = Command::new(&logger.binary);
    command
        .arg("log-dir")
        .arg(&logger.dir)
        .stdin(Stdio::null())
        .process_group(0)
        .fd_mappings(vec![
            mapping(3, stdout.into()),
            mapping(4, stderr.into()),
            mapping(5, ready_writer.into()),
        ])
        .map_err(io::Error::other)?;
    // It ends by itself when both pipes do; tokio reaps it then.
    tokio::process::Command::from(command).spawn()?;
    Ok(ready)
}

fn wait_for_end(mut pipe: PipeReader) -> io::Result<()> {
    pipe.read_to_end(&mut Vec::new()).map(drop)
}

/// A command with these arguments, as the container has it.
pub(super) fn command(spec: &ContainerSpec, args: &[String], dir: &Path) -> io::Result<Command> {
    let on_host = |text: &str| on_host(text, &spec.mounts);
    let (program, args) = args
        .split_first()
        .ok_or_else(|| io::Error::other("there is no command"))?;
    let mut command = Command::new(on_host(program));
    command
        .args(args.iter().map(|arg| on_host(arg)))
        .env_clear()
        .env("PATH", PATH)
        .envs(
            spec.environment
                .iter()
                .map(|(name, value)| (name, on_host(value))),
        )
        .current_dir(dir)
        .process_group(0);
    Ok(command)
}

/// `text`, or the host's path where it is a path below a mount's target.
fn on_host(text: &str, mounts: &[BindMount]) -> PathBuf {
    let below = |mount: &BindMount| {
        let rest = Path::new(text).strip_prefix(&mount.target).ok()?;
        let whole = rest.as_os_str().is_empty();
        Some(if whole {
            mount.source.clone()
        } else {
            mount.source.join(rest)
        })
    };
    mounts
        .iter()
        .rev()
        .find_map(below)
        .unwrap_or_else(|| text.into())
}

/// The end as the real engine tells it.
pub(super) fn ended(status: ExitStatus) -> EngineExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => EngineExit {
            code: code.unsigned_abs(),
            ended_ms: now_ms(),
        },
        (None, signal) => killed_by(signal.unwrap_or(0)),
    }
}

/// The end by a signal, now.
pub(super) fn killed_by(signal: i32) -> EngineExit {
    EngineExit {
        code: 128 + signal.unsigned_abs(),
        ended_ms: now_ms(),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Sends a signal to one process; one that is gone counts as signalled.
pub(super) fn signal(pid: u32, signal: i32) -> Result<(), Errno> {
    let signal = Signal::try_from(signal)?;
    match kill(Pid::from_raw(pid.cast_signed()), signal) {
        Err(Errno::ESRCH) => Ok(()),
        sent => sent,
    }
}

/// Sends a signal to every process of a group.
pub(super) fn signal_group(pid: u32, signal: i32) -> Result<(), Errno> {
    killpg(Pid::from_raw(pid.cast_signed()), Signal::try_from(signal)?)
}

/// Kills a group and waits until no process of it is left but those that ended.
pub(super) async fn end_group(pid: u32) {
    while signal_group(pid, super::SIGKILL).is_ok() && proc::usage(pid).pids > 0 {
        tokio::time::sleep(GROUP_POLL).await;
    }
}
