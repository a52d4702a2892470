//! Hands a script to the shell without a file in the image and without secrets in arguments.
//!
//! The text lies in an anonymous file that the shell opens by `/proc/self/fd/N`. A script may be
//! longer than the kernel allows for one argument.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, dup2, dup3, setsid};

use super::shell::Shell;

/// The highest descriptor that every shell can name in a redirection.
const FD_NAMEABLE_MAX: i32 = 9;

/// What the commands of a task have in common.
#[derive(Debug)]
pub(crate) struct CommandContext {
    /// The shell that runs them.
    pub(crate) shell: Shell,
    /// The whole environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Where they begin.
    pub(crate) workdir: Option<PathBuf>,
}

/// Where a script's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptOutput {
    /// To the container's own stdout and stderr, without passing through this process.
    Container,
    /// Both into one pipe, for the runtime log.
    Pipe,
}

/// A script that runs.
#[derive(Debug)]
pub(crate) struct RunningScript {
    /// Its shell, leader of a session and process group.
    pub(crate) pid: Pid,
    /// Its output, if it was asked for.
    pub(crate) output: Option<PipeReader>,
}

/// A descriptor number kept for scripts, so that it is the same low one for each.
#[derive(Debug)]
pub(crate) struct ScriptSlot {
    slot: OwnedFd,
    placeholder: OwnedFd,
}

impl ScriptSlot {
    /// Takes the lowest free number. To be called first of all.
    pub(crate) fn reserve() -> io::Result<Self> {
        let slot = memfd_create("slot", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self {
            placeholder: slot.try_clone()?,
            slot,
        })
    }

    /// Starts a shell that runs `text`.
    pub(crate) fn start(
        &mut self,
        text: &str,
        around: &CommandContext,
        output: ScriptOutput,
    ) -> io::Result<RunningScript> {
        let script = self.script(text, &around.shell)?;
        let mut command = self.command(around);
        let reader = redirect(&mut command, output)?;
        // Without close-on-exec, for the shell; taken back at once. This process has one thread,
        // so nothing else starts in between.
        dup2(script, &mut self.slot)?;
        let child = command.spawn();
        dup3(&self.placeholder, &mut self.slot, OFlag::O_CLOEXEC)?;
        Ok(RunningScript {
            pid: Pid::from_raw(child?.id().cast_signed()),
            output: reader,
        })
    }

    /// The script in memory. Its first line keeps its number in the shell's messages.
    fn script(&self, text: &str, shell: &Shell) -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create("script", MFdFlags::MFD_CLOEXEC)?);
        let fd = self.slot.as_raw_fd();
        if fd <= FD_NAMEABLE_MAX {
            // The shell reads it by a descriptor of its own; commands need not inherit this one.
            write!(file, "exec {fd}<&-; ")?;
        }
        file.write_all(shell.prologue().as_bytes())?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        Ok(file.into())
    }

    fn command(&self, around: &CommandContext) -> Command {
        let mut command = Command::new(&around.shell.program);
        command
            .args(around.shell.args())
            .arg(format!("/proc/self/fd/{}", self.slot.as_raw_fd()))
            .env_clear()
            .envs(around.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        if let Some(dir) = &around.workdir {
            command.current_dir(dir);
        }
        // The mask that this process made for itself would be inherited.
        let fresh_start = || {
            SigSet::empty().thread_set_mask()?;
            setsid()?;
            Ok(())
        };
        // SAFETY: runs between fork and exec; both calls are async-signal-safe and allocate
        // nothing.
        #[allow(unsafe_code)]
        unsafe {
            command.pre_exec(fresh_start);
        }
        command
    }
}

fn redirect(command: &mut Command, output: ScriptOutput) -> io::Result<Option<PipeReader>> {
    match output {
        ScriptOutput::Container => Ok(None),
        ScriptOutput::Pipe => {
            let (reader, writer): (PipeReader, PipeWriter) = io::pipe()?;
            command.stdout(writer.try_clone()?).stderr(writer);
            Ok(Some(reader))
        }
    }
}
