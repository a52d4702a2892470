//! The logs of this node's tasks: what there is, its bytes, and how long it is kept.
//!
//! The logger process writes them (`muster-init log-dir`); here they are only read and, in the
//! end, removed. Log contents are users' data and names come from requests: nothing is opened
//! but the known files, and no link is followed.

mod file;
mod follow;
mod part;
mod parts;
mod places;
mod sweep;
mod tail;
mod times;

use std::io;
use std::path::PathBuf;

pub use file::{LogFile, list};
pub use follow::EndHint;
pub use part::{LogBytes, LogPart, read, read_whole};
pub(crate) use parts::size;
pub use places::{FoundLine, FoundLines, LogLookup, find};
pub use sweep::{LogSurvey, RetentionPolicy, Swept};
pub use tail::LogTails;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// No log is called that, or it has nothing yet.
    #[error("there is no log {0:?}")]
    NoLog(String),
    /// The disk failed.
    #[error("cannot read {path}")]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What happened.
        #[source]
        source: io::Error,
    },
}
