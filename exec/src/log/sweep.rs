//! Removes the logs that nobody needs any more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;

use super::LogError;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Bytes of all task directories together; the oldest go first.
    pub total_bytes_max: u64,
    /// Time since a task's end after which its directory goes.
    pub age_max: Duration,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Tasks whose directories were removed, oldest first.
    pub removed: Vec<AttemptUid>,
    /// Bytes that are left, unfinished tasks' included.
    pub bytes_left: u64,
}

/// The task directories that there are. Taken before its user asks which tasks are unfinished, so
/// that a task which begins meanwhile is in no danger.
#[derive(Debug)]
pub struct LogSurvey {
    tasks: Vec<SweepCandidate>,
}

#[derive(Debug)]
struct SweepCandidate {
    uid: AttemptUid,
    path: PathBuf,
    ended: SystemTime,
    bytes: u64,
}

impl LogSurvey {
    /// Looks at every task directory below `tasks_dir`. Blocks; meant for a thread that may.
    pub fn take(tasks_dir: &Path) -> Result<Self, LogError> {
        let mut tasks: Vec<SweepCandidate> = entries(tasks_dir)?
            .iter()
            .filter_map(|entry| candidate(entry))
            .collect();
        tasks.sort_by_key(|task| task.ended);
        Ok(Self { tasks })
    }

    /// Removes directories of ended tasks. Those of `unfinished` stay, whatever the policy says.
    /// Blocks as well.
    pub fn sweep(
        self,
        policy: &RetentionPolicy,
        unfinished: &BTreeSet<AttemptUid>,
        now: SystemTime,
    ) -> Result<Swept, LogError> {
        let mut swept = Swept {
            bytes_left: self.tasks.iter().map(|task| task.bytes).sum(),
            ..Swept::default()
        };
        let ended = |task: &SweepCandidate| !unfinished.contains(&task.uid);
        for task in self.tasks.into_iter().filter(ended) {
            let age = now.duration_since(task.ended).unwrap_or_default();
            if age <= policy.age_max && swept.bytes_left <= policy.total_bytes_max {
                break;
            }
            fs::remove_dir_all(&task.path).map_err(io_error(&task.path))?;
            swept.bytes_left -= task.bytes;
            swept.removed.push(task.uid);
        }
        Ok(swept)
    }
}

fn entries(tasks_dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    match fs::read_dir(tasks_dir) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io_error(tasks_dir)(error)),
    }
}

/// A task's directory with its size; `None` for anything else.
fn candidate(path: &Path) -> Option<SweepCandidate> {
    let uid = path.file_name()?.to_str()?.parse().ok()?;
    if !fs::symlink_metadata(path).ok()?.is_dir() {
        return None;
    }
    let dir = TaskDir::new(path);
    // A task that a crash left without an exit ended when its logs did.
    let ended = [dir.exit_report(), dir.log(), path.to_path_buf()]
        .iter()
        .find_map(|path| fs::symlink_metadata(path).ok()?.modified().ok())?;
    Some(SweepCandidate {
        uid,
        path: path.to_path_buf(),
        ended,
        bytes: bytes_in(&dir.log()),
    })
}

fn bytes_in(log: &Path) -> u64 {
    let entries = fs::read_dir(log).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = path.to_path_buf();
    move |source| LogError::Io { path, source }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn add(tasks_dir: &Path, uid: &str, bytes: usize, ended: SystemTime) {
        let dir = TaskDir::new(tasks_dir.join(uid));
        fs::create_dir_all(dir.log()).unwrap();
        fs::write(dir.log().join("all"), vec![0; bytes]).unwrap();
        let exit = File::create(dir.exit_report()).unwrap();
        exit.set_modified(ended).unwrap();
    }

    #[test]
    fn the_oldest_go_first_and_the_unfinished_never() {
        let now = SystemTime::now();
        let check = |total_bytes_max, days: u32, removed: &[&str], bytes_left| {
            let home = tempfile::tempdir().unwrap();
            for (uid, age, bytes) in [("a", 9, 10), ("b", 5, 20), ("c", 7, 30), ("busy", 99, 1)] {
                add(home.path(), uid, bytes, now - DAY * age);
            }
            File::create(home.path().join("not-a-task")).unwrap();
            let policy = RetentionPolicy {
                total_bytes_max,
                age_max: DAY * days,
            };
            let unfinished = BTreeSet::from(["busy".parse().unwrap()]);
            let survey = LogSurvey::take(home.path()).unwrap();
            let swept = survey.sweep(&policy, &unfinished, now).unwrap();
            let names: Vec<&str> = swept.removed.iter().map(AttemptUid::as_str).collect();
            assert_eq!((names.as_slice(), swept.bytes_left), (removed, bytes_left));
            for uid in removed {
                assert!(!home.path().join(uid).exists());
            }
        };
        check(u64::MAX, 10, &[], 61);
        check(u64::MAX, 6, &["a", "c"], 21);
        check(60, 10, &["a"], 51);
        check(50, 10, &["a", "c"], 21);
        check(0, 0, &["a", "c", "b"], 1);
    }
}
