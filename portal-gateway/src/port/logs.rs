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

/// What is looked for in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogQuestion {
    /// Lines with this text, in capitals or not.
    Text {
        /// The text, not empty.
        text: String,
        /// Where to begin, counted from the first byte that was ever written.
        from: u64,
        /// The number of the line that begins there, where it is known.
        line: Option<u64>,
    },
    /// What was written at this time, milliseconds since the epoch.
    Time(u64),
}

/// A place in a log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct LogPlace {
    /// The first byte of its line, counted from the first byte that was ever written.
    pub offset: u64,
    /// The number of the line, counted from 1 at the first byte that is kept; none where it is not known.
    pub line: Option<u64>,
    /// About when it was written, milliseconds since the epoch: at most some ten seconds before.
    pub at_ms: Option<u64>,
    /// The line, or a part of it around what was found.
    pub text: String,
}

/// Where a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct LogNext {
    /// `from` of the next request.
    pub from: u64,
    /// `line` of the next request.
    pub line: Option<u64>,
}

/// What was found in a log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, JsonSchema)]
pub struct LogPlaces {
    /// The first byte of the log that is kept.
    pub start: u64,
    /// Bytes of the whole log.
    pub size: u64,
    /// In their order, 100 at most. Of a time: one, or none where no time is known.
    pub places: Vec<LogPlace>,
    /// Where to go on: one request looks at 32 MiB. None at the end of the log.
    pub next: Option<LogNext>,
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
    /// Looks in all files of a log as one.
    async fn places(
        &self,
        uid: &AttemptUid,
        name: &str,
        question: LogQuestion,
    ) -> Result<LogPlaces, PortError>;
}
