//! Follows the logs of a job's tasks through every attempt, until the job has ended.
//!
//! Asks again and again what the job has, opens each log once its task is placed, and hands on
//! what comes. An agent that restarts meanwhile is waited for, and reading goes on where it
//! broke off.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use muster_model::id::{JobKey, RoleName, TaskId};
use muster_model::state::JobState;
use muster_model::view::{JobDetail, JobSummary, TaskAttemptView};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::api::{Api, LogSelection, LogSource, LogStart, OpenLog};
use super::client::broken;
use super::console::Console;
use super::error::CliError;
use super::patience::Patience;

/// Between two looks at a job that does not get on, at first and at last: what only a look shows, such as a
/// log that comes late, is seen soon, and a job that waits for hours costs little.
const LOOK_FIRST: Duration = Duration::from_millis(100);
const LOOK_LAST: Duration = Duration::from_secs(2);
/// So many events may wait for a slow terminal.
pub(super) const EVENTS_MAX: usize = 64;

/// Which tasks and attempts to read.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) role: Option<RoleName>,
    pub(super) index: Option<u32>,
    /// Of the job; the latest, and those that come after it, if none is named.
    pub(super) attempt: Option<u32>,
    /// Of the task within the job's attempt.
    pub(super) task_attempt: Option<u32>,
}

impl Selection {
    pub(super) fn takes(&self, task: &TaskId) -> bool {
        self.role.as_ref().is_none_or(|role| *role == task.role)
            && self.index.is_none_or(|index| index == task.index)
    }
}

/// What following brings.
#[derive(Debug)]
pub(super) enum FollowEvent {
    /// How the job stands.
    Job(Box<JobSummary>),
    /// The next bytes of a log.
    Chunk(LogSource, Bytes),
    /// So many bytes of a log come no more: they were dropped before they were read.
    Missing(LogSource, u64),
}

/// Says that a part of a log is gone.
pub(super) fn tell_missing(source: &LogSource, bytes: u64, console: &Console) {
    let LogSource { task, name, .. } = source;
    console.note(format!(
        "{bytes} bytes of the log {name} of {task} are missing here: of a long log only the end is kept"
    ));
}

/// A job being followed.
#[derive(Debug)]
pub(super) struct JobFollower {
    api: Api,
    key: JobKey,
    selection: Selection,
    /// Log files to read of each task.
    names: Vec<String>,
    start: LogStart,
    events: Sender<FollowEvent>,
    /// The lowest attempt of the job that may still gain tasks.
    attempt: Option<u32>,
    /// Everything that is read, was read, or has its turn to come.
    opened: BTreeSet<LogSource>,
    /// The attempts of one task write one log after the other, so they are read in turn: the
    /// first of a lane is being read.
    lanes: BTreeMap<(TaskId, String), VecDeque<LogTurn>>,
    readers: JoinSet<(LogSource, Result<(), CliError>)>,
}

impl JobFollower {
    pub(super) fn new(
        api: &Api,
        key: &JobKey,
        names: &[&str],
        events: Sender<FollowEvent>,
    ) -> Self {
        Self {
            api: api.clone(),
            key: key.clone(),
            selection: Selection::default(),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            start: LogStart::Beginning,
            events,
            attempt: None,
            opened: BTreeSet::new(),
            lanes: BTreeMap::new(),
            readers: JoinSet::new(),
        }
    }

    /// Reads only these tasks, and begins each log at `start`.
    pub(super) fn only(self, selection: Selection, start: LogStart) -> Self {
        Self {
            selection,
            start,
            ..self
        }
    }

    /// Goes on until the job, or the attempt that was selected, has ended and every log of it
    /// was read. Returns the job as it ended.
    pub(super) async fn run(mut self) -> Result<JobDetail, CliError> {
        // A copy may tell how the job stands while nobody leads who could tell of its end.
        let (mut looking, mut settling) = (Patience::default(), Patience::default());
        let (mut pause, mut seen) = (LOOK_FIRST, None);
        loop {
            let looked = self.look().await;
            let Some(detail) = looking.bear(looked).await? else {
                continue;
            };
            if ended(&detail, &self.selection) {
                self.drain().await?;
                // What was asked for before its file was there; now it is, or will never be.
                self.open(&detail, false);
                self.drain().await?;
                return Ok(detail);
            }
            let mark = detail.summary.mark();
            let changed = seen.replace(mark.clone()).is_none_or(|seen| seen != mark);
            if changed {
                pause = LOOK_FIRST;
            }
            pause = if self.news_within(&mark, pause, &mut settling).await? {
                LOOK_FIRST
            } else {
                (pause * 2).min(LOOK_LAST)
            };
        }
    }

    /// Waits for so long or until the job has got on since it had this mark; but no longer than to the end
    /// of a log, after which there is soon something new to see: then it says so.
    async fn news_within(
        &mut self,
        mark: &str,
        pause: Duration,
        patience: &mut Patience,
    ) -> Result<bool, CliError> {
        let (api, key) = (self.api.clone(), self.key.clone());
        let settled = api.changed(&key, mark, pause);
        tokio::pin!(settled);
        loop {
            tokio::select! {
                settled = &mut settled => {
                    patience.bear(settled).await?;
                    return Ok(false);
                }
                Some(joined) = self.readers.join_next() => {
                    let ended = matches!(joined, Ok((_, Ok(()))));
                    self.done(joined)?;
                    if ended {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// One look at the job; opens what is new in it.
    async fn look(&mut self) -> Result<JobDetail, CliError> {
        let looked = self.api.job(&self.key, self.selection.attempt);
        let detail = looked.await?.value;
        let _ = self
            .events
            .send(FollowEvent::Job(Box::new(detail.summary.clone())))
            .await;
        self.reap()?;
        if let Some(latest) = &detail.attempt {
            for missed in self.attempt.unwrap_or(latest.id)..latest.id {
                let missed = self.api.job(&self.key, Some(missed)).await?;
                self.open(&missed.value, false);
            }
            self.attempt = Some(latest.id);
        }
        self.open(&detail, true);
        Ok(detail)
    }

    /// Sees that every selected log is read, now or in its turn.
    fn open(&mut self, detail: &JobDetail, may_come: bool) {
        for source in sources(detail, &self.selection, &self.names) {
            if self.opened.insert(source.clone()) {
                let lane = self.lanes.entry(lane_of(&source)).or_default();
                let turn = LogTurn { source, may_come };
                lane.push_back(turn.clone());
                if lane.len() == 1 {
                    self.read(turn);
                }
            }
        }
    }

    fn read(&mut self, LogTurn { source, may_come }: LogTurn) {
        let reader = LogReader {
            api: self.api.clone(),
            key: self.key.clone(),
            start: self.start,
            events: self.events.clone(),
        };
        self.readers.spawn(async move {
            let read = match reader.read(&source).await {
                // It will never be there: the task was ended before it ran.
                Err(error) if error.is_not_found() && !may_come => Ok(()),
                read => read,
            };
            (source, read)
        });
    }

    /// Looks after the readers that are done.
    fn reap(&mut self) -> Result<(), CliError> {
        while let Some(joined) = self.readers.try_join_next() {
            self.done(joined)?;
        }
        Ok(())
    }

    async fn drain(&mut self) -> Result<(), CliError> {
        while let Some(joined) = self.readers.join_next().await {
            self.done(joined)?;
        }
        Ok(())
    }

    fn done(
        &mut self,
        joined: Result<(LogSource, Result<(), CliError>), tokio::task::JoinError>,
    ) -> Result<(), CliError> {
        let (source, read) = joined.map_err(|error| broken("reading logs", error))?;
        if let Some(lane) = self.lanes.get_mut(&lane_of(&source)) {
            lane.pop_front();
            if let Some(next) = lane.front().cloned() {
                self.read(next);
            }
        }
        match read {
            Err(error) if error.is_not_found() => {
                self.opened.remove(&source);
                Ok(())
            }
            read => read,
        }
    }
}

/// A log whose turn comes.
#[derive(Clone, Debug)]
struct LogTurn {
    source: LogSource,
    /// The task may still run, so a log that is missing may still come.
    may_come: bool,
}

fn lane_of(source: &LogSource) -> (TaskId, String) {
    (source.task.clone(), source.name.clone())
}

/// Whether nothing more can come.
fn ended(detail: &JobDetail, selection: &Selection) -> bool {
    let attempt_ended = || {
        detail.attempt.as_ref().is_some_and(|attempt| {
            let code = attempt.verdict.as_ref().map(|verdict| verdict.code());
            JobState::of_attempt(attempt.sub_state, code).is_final()
        })
    };
    detail.summary.state().is_final() || (selection.attempt.is_some() && attempt_ended())
}

/// The logs of every selected task attempt that was placed.
pub(super) fn sources(
    detail: &JobDetail,
    selection: &Selection,
    names: &[String],
) -> Vec<LogSource> {
    let Some(attempt) = &detail.attempt else {
        return Vec::new();
    };
    let mut sources = Vec::new();
    for task in detail.tasks().filter(|task| selection.takes(&task.id)) {
        let wanted = |view: &&TaskAttemptView| {
            view.uid.is_some() && selection.task_attempt.is_none_or(|id| id == view.id)
        };
        for view in task.attempts.iter().filter(wanted) {
            sources.extend(names.iter().map(|name| LogSource {
                task: task.id.clone(),
                attempt: attempt.id,
                task_attempt: view.id,
                name: name.clone(),
            }));
        }
    }
    sources
}

/// Reads one log to its end.
#[derive(Debug)]
struct LogReader {
    api: Api,
    key: JobKey,
    start: LogStart,
    events: Sender<FollowEvent>,
}

impl LogReader {
    async fn read(&self, source: &LogSource) -> Result<(), CliError> {
        let mut patience = Patience::default();
        let mut start = self.start;
        loop {
            let passed = self.pass(source, &mut start).await;
            if patience.bear(passed).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Reads as far as one connection goes, and moves `start` behind what was handed on.
    async fn pass(&self, source: &LogSource, start: &mut LogStart) -> Result<(), CliError> {
        let mut log = self.open(source, *start).await?;
        let missing = log.missing(*start);
        if missing > 0 {
            *start = LogStart::Byte(log.start.unwrap_or(0));
            let event = FollowEvent::Missing(source.clone(), missing);
            let _ = self.events.send(event).await;
        }
        let mut place = log.start;
        let handed_on = match *start {
            LogStart::Byte(byte) => byte,
            LogStart::Beginning | LogStart::Tail(_) => 0,
        };
        while let Some(mut bytes) = log.next().await? {
            if let Some(place) = &mut place {
                let known = handed_on.saturating_sub(*place);
                *place += bytes.len() as u64;
                *start = LogStart::Byte((*place).max(handed_on));
                bytes = bytes.split_off(
                    usize::try_from(known).map_or(bytes.len(), |known| known.min(bytes.len())),
                );
            }
            let chunk = FollowEvent::Chunk(source.clone(), bytes);
            if self.events.send(chunk).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Opens the log at `start`. The byte before is asked for too: it is always there, where a
    /// log that has not grown has nothing at `start`. A log that has become shorter was begun
    /// anew, and so is reading it.
    async fn open(&self, source: &LogSource, start: LogStart) -> Result<OpenLog, CliError> {
        let start = match start {
            LogStart::Byte(byte) => LogStart::Byte(byte.saturating_sub(1)),
            other => other,
        };
        let part = |start| LogSelection {
            start,
            follow: true,
        };
        match self.api.log(&self.key, source, part(start)).await {
            Err(error) if error.is_past_the_end() => {
                self.api
                    .log(&self.key, source, part(LogStart::Beginning))
                    .await
            }
            opened => opened,
        }
    }
}
