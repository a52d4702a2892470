//! The ends of a task's logs, and the wait for them to be whole.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use muster_init::exit_report::TaskPhase;
use muster_init::task_dir::{OLD_SUFFIX, TaskDir};
use muster_model::exit::{Evidence, RawExit};

use crate::log;

/// How long a logger may take to write what is left once its container was killed.
const LOGGER_PATIENCE: Duration = Duration::from_secs(5);
/// How much of the runtime log is searched for the last phase.
const REACHED_BYTES_MAX: u64 = 1 << 20;
const LOGGER_POLL: Duration = Duration::from_millis(2);

/// Waits until the logs are whole: the exit is stored after all else, so where it is there is
/// nothing to wait for. The logger itself may stay until its container is removed.
pub(super) async fn logs_whole(dir: &TaskDir) {
    wait_until(dir, || dir.exit_report().exists() || is_free(dir)).await;
}

/// Waits until the logger is gone.
pub(super) async fn logger_done(dir: &TaskDir) {
    wait_until(dir, || is_free(dir)).await;
}

/// Whether nobody logs there: a logger locks its directory.
fn is_free(dir: &TaskDir) -> bool {
    File::open(dir.log()).map_or(true, |log| log.try_lock().is_ok())
}

async fn wait_until(dir: &TaskDir, done: impl Fn() -> bool) {
    let wait = async {
        while !done() {
            tokio::time::sleep(LOGGER_POLL).await;
        }
    };
    if tokio::time::timeout(LOGGER_PATIENCE, wait).await.is_err() {
        tracing::warn!(dir = %dir.root().display(), "the logger of an ended task still writes");
    }
}

/// Everything that the failure rules look at.
pub(super) async fn gather(dir: &TaskDir, exit: RawExit, tail_bytes_max: u64) -> Evidence {
    let task = dir.clone();
    let tails = tokio::task::spawn_blocking(move || {
        let tail = |name| tail(&task.log(), name, tail_bytes_max).unwrap_or_default();
        let user_log = tail("all");
        let from = log::size(&task, "all").saturating_sub(user_log.len() as u64);
        (user_log, from, tail("runtime.log"))
    });
    let (user_log, user_log_from, platform_log) = tails.await.unwrap_or_default();
    Evidence {
        exit,
        user_log,
        user_log_from,
        platform_log,
        device_events: Vec::new(),
    }
}

/// How far a task came at least, of which no report was left.
pub(super) fn reached_by_log(dir: &TaskDir) -> TaskPhase {
    let log = tail(&dir.log(), "runtime.log", REACHED_BYTES_MAX).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let begun = |what: &str| log.contains(&format!("[openpai-runtime] {what} begin"));
    if begun("post-commands") {
        TaskPhase::PostCommands
    } else if begun("user commands") {
        TaskPhase::UserCommands
    } else if begun("pre-commands") {
        TaskPhase::PreCommands
    } else {
        TaskPhase::Setup
    }
}

/// The last bytes of a log over its two files.
fn tail(log: &Path, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    let new = file_tail(&log.join(name), bytes_max)?;
    let missing = bytes_max.saturating_sub(new.len() as u64);
    let mut whole = match missing {
        0 => Vec::new(),
        _ => file_tail(&log.join(format!("{name}{OLD_SUFFIX}")), missing)?,
    };
    whole.extend_from_slice(&new);
    Ok(whole)
}

fn file_tail(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use muster_model::exit::ExitPhase;

    use super::*;

    #[tokio::test]
    async fn the_place_of_a_tail_counts_what_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let task = TaskDir::new(dir.path());
        std::fs::create_dir_all(task.log()).unwrap();
        let write = |name: &str, text: &str| std::fs::write(task.log().join(name), text).unwrap();
        let exit = RawExit {
            code: 1,
            signal: None,
            oom_killed: false,
            own_doing: true,
            phase: ExitPhase::UserCommands,
            cause: None,
            message: String::new(),
            ended_ms: 0,
        };
        write("all.1", "012345");
        write("all", "6789");
        let whole = gather(&task, exit.clone(), 99).await;
        assert_eq!(
            (whole.user_log.as_slice(), whole.user_log_from),
            (&b"0123456789"[..], 0)
        );
        let end = gather(&task, exit.clone(), 5).await;
        assert_eq!(
            (end.user_log.as_slice(), end.user_log_from),
            (&b"56789"[..], 5)
        );
        write("all.dropped", "100");
        assert_eq!(gather(&task, exit, 5).await.user_log_from, 105);
    }

    #[test]
    fn a_tail_reaches_into_the_older_file() {
        let dir = tempfile::tempdir().unwrap();
        let get = |max| String::from_utf8(tail(dir.path(), "all", max).unwrap()).unwrap();
        assert_eq!(get(5), "");
        std::fs::write(dir.path().join("all"), "6789").unwrap();
        assert_eq!(get(5), "6789");
        std::fs::write(dir.path().join("all.1"), "012345").unwrap();
        assert_eq!(
            (get(3), get(5), get(99)),
            ("789".into(), "56789".into(), "0123456789".into())
        );
    }
}
