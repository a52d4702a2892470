//! How a container's commands ended, as its muster-init saw it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How far a task came. Frozen: part of messages and of `exit.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaskPhase {
    /// Waits for its setup.
    Setup,
    /// Has found a shell; waits for Go.
    Ready,
    /// Runs the commands before the user's.
    PreCommands,
    /// Runs the user's commands.
    UserCommands,
    /// Runs the commands after the user's.
    PostCommands,
    /// Every process is gone.
    Ended,
}

/// Why the commands could not be run at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The image has no shell.
    NoShell,
    /// Anything else that the container's own runtime could not do.
    Runtime,
    /// The variables of image and job are more than the kernel gives a program.
    TooLong,
}

/// A failure of the runtime rather than of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeFailure {
    /// Which.
    pub kind: FailureKind,
    /// A sentence for the user.
    pub message: String,
}

/// The end of a task. Frozen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// Exit status of the commands, 128+N for signal N. Where the shell died of a stop's SIGTERM, it
    /// is that of the programs that it had started.
    pub code: i32,
    /// The signal that ended the process whose status this is, if one did.
    pub signal: Option<i32>,
    /// How far it came.
    pub phase: TaskPhase,
    /// It was told to stop, by somebody outside the task, before it had ended.
    pub stopped: bool,
    /// Its run lease ended before it had.
    pub lease_ended: bool,
    /// When the first command began, milliseconds since the epoch; 0 if none did.
    pub launched_ms: u64,
    /// When the last command ended, milliseconds since the epoch.
    pub ended_ms: u64,
    /// The runtime's own failure, if that ended it.
    pub failure: Option<RuntimeFailure>,
}

impl ExitReport {
    /// Writes it to `path` so that a crash leaves the whole report or none.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let mut file = File::create(&part)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_data()?;
        fs::rename(&part, path)?;
        match path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Reads it back; `None` if there is none.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an earlier release wrote must be read for as long as tasks of it may be there.
    const GOLDEN: &str = r#"{"code":137,"signal":9,"phase":"UserCommands","stopped":true,"lease_ended":false,"launched_ms":1,"ended_ms":2,"failure":{"kind":"NoShell","message":"m"}}"#;

    #[test]
    fn a_report_is_stored_in_its_released_form() {
        let report = ExitReport {
            code: 137,
            signal: Some(9),
            phase: TaskPhase::UserCommands,
            stopped: true,
            lease_ended: false,
            launched_ms: 1,
            ended_ms: 2,
            failure: Some(RuntimeFailure {
                kind: FailureKind::NoShell,
                message: "m".to_owned(),
            }),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit.json");
        assert_eq!(ExitReport::load(&path).unwrap(), None);
        report.store(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), GOLDEN);
        assert_eq!(ExitReport::load(&path).unwrap(), Some(report));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
