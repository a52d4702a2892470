//! Logs of the tasks that ran on this node.

use std::path::PathBuf;

use async_trait::async_trait;
use muster_exec::log::{self, EndHint, LogBytes};
use muster_init::task_dir::TaskDir;
use muster_model::id::AttemptUid;
use muster_portal_gateway::port::{LogFileInfo, LogRange, LogSlice, LogWish, Logs, PortError};

use super::errors::unavailable;

/// The logs of this node.
#[derive(Debug)]
pub(super) struct LocalLogs {
    /// The directories of this node's tasks.
    pub(super) tasks: PathBuf,
    /// Changes whenever an entry was applied to a copy here.
    pub(super) applied: EndHint,
}

impl LocalLogs {
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
            (true, false) => log::follow(&dir, name, range, self.applied.clone()).await,
            (true, true) => log::follow_whole(&dir, name, range, self.applied.clone()).await,
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
}

fn log_error(error: log::LogError) -> PortError {
    match error {
        log::LogError::NoLog(_) => PortError::NoLog,
        log::LogError::Io { .. } => unavailable(error),
    }
}
