//! File trees as streams: a file or a directory on one side, the same on the other.
//!
//! The stream is a tar archive and a mark behind it, so that a part is never taken for the whole. Both sides are this
//! crate: `muster job cp` on a person's machine, and muster-init in a task's container, which needs no tar in the image.
//! [`send`] and [`TreeReceiver`] have another form, of records, for trees of which a part is of use: those that go to
//! storages and come from there.
//! What comes from elsewhere is not trusted: nothing is written outside the place that was named.

pub mod beneath;
mod pack;
mod receive;
mod record;
mod send;
mod unpack;

use std::io;
use std::path::PathBuf;

pub use pack::pack;
pub use receive::{TreeReceiver, finish};
pub use record::{TreeRecord, TreeRecordKind};
pub use send::{send, write_file};
pub use unpack::unpack;

/// Follows the archive.
const END: &[u8] = b"muster: the end\n";

/// Why a tree was not packed, or not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Something on the disk cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing that could be named so on the other side.
    #[error("{}: name a file or a directory, not what holds everything", .0.display())]
    Nameless(PathBuf),
    /// What came is no tree.
    #[error("what came is no tree of files: {0}")]
    Malformed(io::Error),
    /// The stream broke off.
    #[error("the other side broke off before all files had come")]
    BrokenOff,
    /// The other side takes nothing more.
    #[error("the other side takes no more: {0}")]
    Closed(io::Error),
    /// An entry that leads out of the place that was named.
    #[error("{}: it would be written outside the destination", .0.display())]
    Outside(PathBuf),
    /// It became shorter meanwhile.
    #[error("{}: it has changed while it was read", .0.display())]
    Changed(PathBuf),
}

impl TreeError {
    fn of(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

#[cfg(test)]
mod tests;
