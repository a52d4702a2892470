//! Logs of the tasks that ran on this node.

use std::path::PathBuf;

use async_trait::async_trait;
use muster_exec::log::{self, EndHint, LogBytes, LogTails};
use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;
use muster_portal_gateway::port::{
    LogFileInfo, LogNext, LogPlace, LogPlaces, LogQuestion, LogRange, LogSlice, LogWish, Logs,
    PortError,
};
use tokio::sync::Semaphore;

use super::errors::unavailable;

/// Searches at a time. Each keeps a core busy for some tens of milliseconds.
const SEARCHES_MAX: usize = 2;

/// The logs of this node.
#[derive(Debug)]
pub(super) struct LocalLogs {
    /// The directories of this node's tasks.
    tasks: PathBuf,
    /// Changes whenever an entry was applied to a copy here.
    applied: EndHint,
    /// What is followed.
    tails: LogTails,
    searches: Semaphore,
}

impl LocalLogs {
    /// The logs below `tasks`. `applied` changes whenever an entry was applied to a copy here.
    pub(super) fn new(tasks: PathBuf, applied: EndHint) -> Self {
        Self {
            tasks,
            applied,
            tails: LogTails::default(),
            searches: Semaphore::new(SEARCHES_MAX),
        }
    }

    fn task_dir(&self, uid: &AttemptUid) -> TaskDir {
        TaskDir::new(self.tasks.join(uid.as_str()))
    }
}

#[async_trait]
impl Logs for LocalLogs {
    async fn files(&self, uid: &AttemptUid) -> Result<Vec<LogFileInfo>, PortError> {
        let dir = self.task_dir(uid);
        if !dir.log().exists() {
            return Err(PortError::NoLog);
        }
        let files = log::list(&dir);
        let file = |log::LogFile { name, size }| LogFileInfo { name, size };
        Ok(files.into_iter().map(file).collect())
    }

    async fn read(
        &self,
        uid: &AttemptUid,
        name: &str,
        wish: LogWish,
    ) -> Result<LogSlice, PortError> {
        let range = match wish.range {
            LogRange::All => LogBytes::All,
            LogRange::Tail(bytes) => LogBytes::Tail(bytes),
            LogRange::Bytes { start, end } => LogBytes::Bytes { start, end },
        };
        let dir = self.task_dir(uid);
        let part = match (wish.follow, wish.whole) {
            (false, false) => log::read(&dir, name, range).await,
            (false, true) => log::read_whole(&dir, name, range).await,
            (true, false) => {
                let news = self.applied.clone();
                self.tails.follow(&dir, name, range, news).await
            }
            (true, true) => {
                let news = self.applied.clone();
                self.tails.follow_whole(&dir, name, range, news).await
            }
        };
        let log::LogPart {
            start,
            size,
            length,
            body,
        } = part.map_err(log_error)?;
        Ok(LogSlice {
            start,
            size,
            length,
            body,
        })
    }

    async fn places(
        &self,
        uid: &AttemptUid,
        name: &str,
        question: LogQuestion,
    ) -> Result<LogPlaces, PortError> {
        let question = match question {
            LogQuestion::Text { text, from, line } => log::LogLookup::Text { text, from, line },
            LogQuestion::Time(at_ms) => log::LogLookup::Time(at_ms),
        };
        let (dir, name) = (self.task_dir(uid), name.to_owned());
        let turn = self.searches.acquire().await.map_err(unavailable)?;
        let found = tokio::task::spawn_blocking(move || log::find(&dir, &name, &question)).await;
        drop(turn);
        let found = found.map_err(unavailable)?.map_err(log_error)?;
        let next = found.next;
        Ok(LogPlaces {
            start: found.start,
            size: found.size,
            places: found.lines.into_iter().map(place).collect(),
            next: next.map(|(from, line)| LogNext { from, line }),
        })
    }
}

fn place(found: log::FoundLine) -> LogPlace {
    LogPlace {
        offset: found.offset,
        line: found.line,
        at_ms: found.at_ms,
        text: String::from_utf8_lossy(&found.text).into_owned(),
    }
}

fn log_error(error: log::LogError) -> PortError {
    match error {
        log::LogError::NoLog(_) => PortError::NoLog,
        log::LogError::Io { .. } => unavailable(error),
    }
}
