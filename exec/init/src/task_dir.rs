//! Where the files of one task lie, on the host and in its container.

use std::path::{Path, PathBuf};

/// muster-init itself, in the container.
pub const CONTAINER_INIT: &str = "/usr/local/muster/init";
/// The directory of the sockets, in the container.
pub const CONTAINER_CTL: &str = "/usr/local/muster/ctl";
/// The socket on which the agent listens, in the directory of the sockets.
pub const AGENT_SOCKET: &str = "agent.sock";
/// The socket on which the task's logger listens, beside it.
pub const LOGGER_SOCKET: &str = "logger.sock";

/// The log files in [`TaskDir::log`]. Each has an older part, `NAME.1`, once it was full.
pub const LOG_FILES: [&str; 4] = ["all", "stdout", "stderr", "runtime.log"];
/// What the older part of a log file is called: `NAME.1`.
pub const OLD_SUFFIX: &str = ".1";
/// What the file is called that says how many bytes of a log are not kept any more, as a decimal number:
/// `NAME.dropped`. It is there once something was dropped.
pub const DROPPED_SUFFIX: &str = ".dropped";
/// What the file is called that says when which byte of a log was written: `NAME.times`, and `NAME.times.1` for
/// the older part. Records of 16 bytes: the place in the whole log, and milliseconds since the epoch.
pub const TIMES_SUFFIX: &str = ".times";

/// A task's directory on the host, readable by root alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDir {
    root: PathBuf,
}

impl TaskDir {
    /// The task directory at `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The task directory whose [`TaskDir::log`] is `log`.
    pub fn of_log(log: &Path) -> Self {
        Self::new(log.parent().unwrap_or_else(|| Path::new("/")))
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The sockets. Mapped into the container as [`CONTAINER_CTL`].
    pub fn ctl(&self) -> PathBuf {
        self.root.join("ctl")
    }

    /// The hosts file. Mapped into the container as `/etc/hosts`.
    pub fn hosts(&self) -> PathBuf {
        self.root.join("hosts")
    }

    /// The log files.
    pub fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Directories of people's commands in it, each with its pipes.
    pub fn exec(&self) -> PathBuf {
        self.root.join("exec")
    }

    /// What the logger is told, as [`crate::logger::LoggerConfig`]. Written before it starts.
    pub fn logger_config(&self) -> PathBuf {
        self.root.join("logger.json")
    }

    /// How the task ended, as [`crate::exit_report::ExitReport`]. Written last.
    pub fn exit_report(&self) -> PathBuf {
        self.root.join("exit.json")
    }
}
