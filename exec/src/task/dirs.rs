//! The task's directory: made before the container, kept with the logs after it.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

use muster_init::logger;
use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;

use super::hosts::{self, HostEntry};
use super::order::RunnerConfig;

/// Root alone: logs are users' data.
const MODE_PRIVATE: u32 = 0o700;
/// For every user of the container, whoever that is.
const MODE_SHARED: u32 = 0o755;

const MODE_READABLE: u32 = 0o644;

/// The host's own hosts file, and where a container's is.
pub(super) const HOSTS: &str = "/etc/hosts";

/// Where the files of a task lie.
pub fn task_dir(config: &RunnerConfig, uid: &AttemptUid) -> TaskDir {
    TaskDir::new(config.tasks_dir.join(uid.as_str()))
}

/// Makes the directory, or completes one that a crash left half made.
pub(super) fn prepare(
    dir: &TaskDir,
    config: &RunnerConfig,
    machines: &[HostEntry],
) -> io::Result<()> {
    let mut private = DirBuilder::new();
    private.recursive(true).mode(MODE_PRIVATE);
    private.create(dir.root())?;
    private.create(dir.log())?;
    private.create(dir.ctl())?;
    fs::set_permissions(dir.ctl(), Permissions::from_mode(MODE_SHARED))?;
    let hosts = fs::read_to_string(HOSTS).unwrap_or_default();
    fs::write(dir.hosts(), hosts::text(machines, &hosts))?;
    fs::set_permissions(dir.hosts(), Permissions::from_mode(MODE_READABLE))?;
    let logger = logger::LoggerConfig {
        bytes_max: config.log_file_bytes_max,
    };
    logger.store(&dir.logger_config())
}
