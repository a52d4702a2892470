//! What the tasks of this node do at one moment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::future::join_all;
use muster_control::request::RequestFailure;
use muster_exec::engine::Engine;
use muster_exec::stacks::{ReadStacks, StackReader, StackReading};
use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;
use muster_model::stacks::{StacksWish, TakenStacks};
use muster_model::task_use::DeviceUse;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::causes::causes;
use crate::clock;
use crate::cluster::LocalUses;
use crate::stack_reader;

/// How long the processes of a task may be read.
const READ_LIMIT: Duration = Duration::from_secs(5);
/// How long the engine may take to list the processes of a task.
const LIST_LIMIT: Duration = Duration::from_secs(2);
/// Questions that are answered at a time, and how long the next one waits.
const TURNS: usize = 4;
const TURN_LIMIT: Duration = Duration::from_secs(1);
/// Tasks of one question.
const TASKS_MAX: usize = 256;
/// Over how long devices are looked at, milliseconds.
const BUSY_MS: u64 = 300_000;
/// What a task writes; the log of the platform is none of it.
const OUTPUTS: [&str; 3] = ["all", "stdout", "stderr"];

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StackTaker(Arc<StackTakerParts>);

#[derive(Debug)]
struct StackTakerParts {
    engine: Arc<dyn Engine>,
    uses: LocalUses,
    /// The directories of this node's tasks.
    tasks: PathBuf,
    reader: StackReader,
    turns: Semaphore,
}

impl StackTaker {
    /// One for the containers of this engine, what they use, and the directories of their tasks.
    pub(crate) fn new((engine, uses): (Arc<dyn Engine>, LocalUses), tasks: PathBuf) -> Self {
        Self(Arc::new(StackTakerParts {
            engine,
            uses,
            tasks,
            reader: stack_reader::reader(),
            turns: Semaphore::new(TURNS),
        }))
    }

    /// What these tasks do. All are looked at together.
    ///
    /// # Errors
    /// [`RequestFailure`] when too many others ask, or for too many tasks.
    pub(crate) async fn take(
        &self,
        wish: StacksWish,
    ) -> Result<Vec<(AttemptUid, TakenStacks)>, RequestFailure> {
        if wish.uids.len() > TASKS_MAX {
            let text = format!("stacks of at most {TASKS_MAX} tasks of a node are taken at a time");
            return Err(RequestFailure::invalid(text));
        }
        let busy = || RequestFailure::unavailable("it takes the stacks of other jobs; try again");
        let turn = timeout(TURN_LIMIT, self.0.turns.acquire()).await;
        let _turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
        let taken = wish.uids.iter().map(|uid| self.0.of(uid, &wish));
        let taken = join_all(taken).await;
        Ok(wish.uids.iter().cloned().zip(taken).collect())
    }
}

impl StackTakerParts {
    async fn of(&self, uid: &AttemptUid, wish: &StacksWish) -> TakenStacks {
        let now_ms = clock::now().as_millis();
        let read = match self.process_ids(uid).await {
            Err(problem) => ReadStacks {
                problem: Some(problem),
                ..ReadStacks::default()
            },
            Ok(pids) => {
                let reading = StackReading {
                    pids,
                    all_threads: wish.all_threads,
                    limit: READ_LIMIT,
                };
                self.reader.read(reading, wish.task_bytes_max).await
            }
        };
        TakenStacks {
            taken_ms: now_ms,
            silent_s: self.silent_s(uid),
            devices_busy: busy(&self.uses.devices.of(uid), now_ms),
            processes: read.processes,
            processes_left_out: read.left_out,
            problem: read.problem,
        }
    }

    async fn process_ids(&self, uid: &AttemptUid) -> Result<Vec<u32>, String> {
        match timeout(LIST_LIMIT, self.engine.process_ids(uid)).await {
            Ok(Ok(pids)) => Ok(pids),
            Ok(Err(error)) => Err(causes(&error)),
            Err(_) => Err("the container engine does not answer".to_owned()),
        }
    }

    /// Seconds since the task wrote something; none if it has written nothing.
    fn silent_s(&self, uid: &AttemptUid) -> Option<u64> {
        let log = TaskDir::new(self.tasks.join(uid.as_str())).log();
        let written = OUTPUTS.iter().filter_map(|name| {
            let file = log.join(name).metadata().ok()?;
            (file.len() > 0).then(|| file.modified().ok())?
        });
        let since = SystemTime::now().duration_since(written.max()?);
        // A clock that was set back since.
        Some(since.unwrap_or_default().as_secs())
    }
}

/// Percent of the last minutes in which devices were busy, on average.
fn busy(devices: &[DeviceUse], now_ms: u64) -> Option<u8> {
    let since = now_ms.saturating_sub(BUSY_MS);
    let points = devices.iter().flat_map(|device| &device.points);
    let recent = points.filter(|point| point.at_ms >= since);
    let busy: Vec<u64> = recent
        .filter_map(|point| point.utilization)
        .map(u64::from)
        .collect();
    let mean = busy.iter().sum::<u64>().checked_div(busy.len() as u64)?;
    u8::try_from(mean).ok()
}

#[cfg(test)]
mod tests {
    use muster_exec::engine::fake::FakeEngine;
    use muster_model::task_use::DevicePoint;

    use super::*;

    #[test]
    fn devices_are_looked_at_over_the_last_minutes() {
        let point = |at_s: u64, utilization| DevicePoint {
            at_ms: at_s * 1000,
            utilization,
            ..DevicePoint::default()
        };
        let device = |points| DeviceUse { index: 0, points };
        let devices = [
            device(vec![
                point(100, Some(100)),
                point(900, Some(10)),
                point(950, None),
            ]),
            device(vec![point(950, Some(20))]),
        ];
        assert_eq!(busy(&devices, 1_000_000), Some(15));
        assert_eq!(busy(&devices, 9_000_000), None);
        assert_eq!(busy(&[], 0), None);
    }

    #[tokio::test]
    async fn a_task_that_is_not_there_is_told_and_its_silence_too() {
        let directory = tempfile::tempdir().unwrap();
        let engine = FakeEngine::new(directory.path().join("engine"), ["image"]);
        let tasks = directory.path().join("tasks");
        let log = tasks.join("a-0/log");
        std::fs::create_dir_all(&log).unwrap();
        std::fs::write(log.join("all"), "step 1\n").unwrap();
        std::fs::write(log.join("stderr"), "").unwrap();
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        let file = std::fs::File::options().append(true).open(log.join("all"));
        file.unwrap().set_modified(hour_ago).unwrap();
        let taker = StackTaker::new((Arc::new(engine), LocalUses::default()), tasks);
        let wish = |count: usize| StacksWish {
            uids: vec!["a-0".parse().unwrap(); count],
            all_threads: false,
            task_bytes_max: 1 << 20,
        };
        let taken = taker.take(wish(1)).await.unwrap();
        let [(uid, taken)] = &taken[..] else {
            panic!("{taken:?}")
        };
        assert_eq!(uid.as_str(), "a-0");
        let silent_s = taken.silent_s.unwrap();
        assert!((3600..3700).contains(&silent_s), "{silent_s}");
        let problem = taken.problem.as_deref().unwrap();
        assert!(problem.contains("a-0 does not exist"), "{problem}");
        let refused = taker.take(wish(TASKS_MAX + 1)).await.unwrap_err();
        assert!(refused.to_string().contains("at most 256"), "{refused}");
    }
}
