//! Logs of task attempts that ran on this node.

use std::fmt;

use async_trait::async_trait;
use muster_model::id::AttemptUid;
use schemars::JsonSchema;

use super::{ByteStream, PortError};

/// One file of a task attempt's log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct LogFileInfo {
    /// `all`, `stdout`, `stderr`, `runtime.log`, each also with `.1` for the older part.
    pub name: String,
    /// Bytes it holds now.
    pub size: u64,
}

/// Which bytes of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRange {
    /// Everything that is kept.
    All,
    /// The last so many bytes.
    Tail(u64),
    /// From `start`; to `end` inclusive, if given.
    Bytes {
        /// First byte.
        start: u64,
        /// Last byte.
        end: Option<u64>,
    },
}

/// What is wanted of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogWish {
    /// Which bytes.
    pub range: LogRange,
    /// The body goes on until the task has ended.
    pub follow: bool,
    /// The log's files are one, and bytes count from the first that was ever written. What is not kept
    /// any more is left out, so that the part may begin later than the range.
    pub whole: bool,
}

/// A part of a log file.
pub struct LogSlice {
    /// Where the part begins in the file.
    pub start: u64,
    /// The file's size when it was opened.
    pub size: u64,
    /// Bytes of the part; unknown when following.
    pub length: Option<u64>,
    /// Its bytes.
    pub body: ByteStream,
}

impl fmt::Debug for LogSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogPart")
            .field("start", &self.start)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Logs on this node. [`PortError::NoLog`] where there is none of that attempt or name.
#[async_trait]
pub trait Logs: std::fmt::Debug + Send + Sync {
    /// The files of a task attempt.
    async fn files(&self, uid: &AttemptUid) -> Result<Vec<LogFileInfo>, PortError>;
    /// Opens a file. A range that begins behind the end gives an empty part with `start` at the end, not
    /// an error.
    async fn read(
        &self,
        uid: &AttemptUid,
        name: &str,
        wish: LogWish,
    ) -> Result<LogSlice, PortError>;
}
