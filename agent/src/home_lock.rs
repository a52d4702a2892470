//! One agent per state directory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeLockError {
    /// Another agent holds it.
    #[error(
        "an agent already runs with {path} (pid {pid}); stop it first, or use another MUSTER_HOME"
    )]
    Taken {
        /// The lock's file.
        path: PathBuf,
        /// Who holds it.
        pid: String,
    },
    /// The file cannot be used.
    #[error("cannot lock {path}")]
    File {
        /// The lock's file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Held while the agent runs; the kernel frees it however the agent ends.
#[derive(Debug)]
pub(crate) struct HomeLock(#[allow(dead_code, reason = "held for its drop")] Flock<File>);

impl HomeLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// When another agent holds it, or the file cannot be used.
    pub(crate) fn take(path: &Path) -> Result<Self, HomeLockError> {
        let fail = |source| HomeLockError::File {
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                lock.set_len(0).map_err(fail)?;
                lock.write_all(std::process::id().to_string().as_bytes())
                    .map_err(fail)?;
                Ok(Self(lock))
            }
            Err((mut file, _)) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(fail)?;
                Err(HomeLockError::Taken {
                    path: path.to_owned(),
                    pid,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_one_is_told_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = HomeLock::take(&path).unwrap();
        let error = HomeLock::take(&path).unwrap_err().to_string();
        assert!(error.contains(&std::process::id().to_string()), "{error}");
        drop(lock);
        HomeLock::take(&path).unwrap();
    }
}
