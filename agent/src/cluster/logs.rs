//! Logs of the tasks that ran on this node.

use std::path::PathBuf;

use async_trait::async_trait;
use muster_exec::log::{self, News, Range};
use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;
use muster_portal_gateway::port::{Error, LogFile, LogPart, LogRange, LogWish, Logs};

use super::errors::unavailable;

/// The logs of this node.
#[derive(Debug)]
pub(super) struct LocalLogs {
    /// The directories of this node's tasks.
    pub(super) tasks: PathBuf,
    /// Changes whenever an entry was applied to a copy here.
    pub(super) applied: News,
}

impl LocalLogs {
    fn task_dir(&self, uid: &AttemptUid) -> TaskDir {
        TaskDir::new(self.tasks.join(uid.as_str()))
    }
}

#[async_trait]
impl Logs for LocalLogs {
    async fn files(&self, uid: &AttemptUid) -> Result<Vec<LogFile>, Error> {
        let dir = self.task_dir(uid);
        if !dir.log().exists() {
            return Err(Error::NoLog);
        }
        let files = log::list(&dir);
        let file = |log::LogFile { name, size }| LogFile { name, size };
        Ok(files.into_iter().map(file).collect())
    }

    async fn read(&self, uid: &AttemptUid, name: &str, wish: LogWish) -> Result<LogPart, Error> {
        let range = match wish.range {
            LogRange::All => Range::All,
            LogRange::Tail(bytes) => Range::Tail(bytes),
            LogRange::Bytes { start, end } => Range::Bytes { start, end },
        };
        let dir = self.task_dir(uid);
        let part = match (wish.follow, wish.whole) {
            (false, false) => log::read(&dir, name, range).await,
            (false, true) => log::read_whole(&dir, name, range).await,
            (true, false) => log::follow(&dir, name, range, self.applied.clone()).await,
            (true, true) => log::follow_whole(&dir, name, range, self.applied.clone()).await,
        };
        let log::LogPart {
            start,
            size,
            length,
            body,
        } = part.map_err(log_error)?;
        Ok(LogPart {
            start,
            size,
            length,
            body,
        })
    }
}

fn log_error(error: log::Error) -> Error {
    match error {
        log::Error::NoLog(_) => Error::NoLog,
        log::Error::Io { .. } => unavailable(error),
    }
}
