//! Why a file of a storage cannot be read or written.

use std::io;
use std::path::Path;

use muster_tree::TreeError;
use serde::{Deserialize, Serialize};

/// Why a request for files failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileProblem {
    /// What kind of fault it is.
    pub kind: FileProblemKind,
    /// The cause, for people.
    pub message: String,
}

/// Kinds of faults with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileProblemKind {
    /// There is no such path.
    NoPath,
    /// The path cannot be meant: a link, a directory where a file is wanted, or a name that is not taken.
    BadPath,
    /// The storage may only be read, or the server does not let this machine write.
    ReadOnly,
    /// The disk or a quota is full.
    Full,
    /// A file is not the one that was begun with.
    Changed,
    /// The same upload is running.
    Busy,
    /// The range begins behind the end of the file.
    Range,
    /// Something else.
    Failed,
}

impl FileProblem {
    /// That something cannot be done.
    pub(super) fn of(what: &str, error: &io::Error) -> Self {
        Self {
            kind: kind(error),
            message: format!("cannot {what}: {}", words(error)),
        }
    }

    /// That a path cannot be used.
    pub(super) fn of_path(path: &Path, error: &io::Error) -> Self {
        let path = path.to_string_lossy();
        let shown = match path.trim_matches('/') {
            "" => "its root",
            path => path,
        };
        Self {
            kind: kind(error),
            message: format!("{shown}: {}", words(error)),
        }
    }

    pub(super) fn new(kind: FileProblemKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }

    pub(super) fn read_only() -> Self {
        Self::new(FileProblemKind::ReadOnly, "the storage may only be read")
    }
}

fn kind(error: &io::Error) -> FileProblemKind {
    use io::ErrorKind as E;
    match error.kind() {
        E::NotFound => FileProblemKind::NoPath,
        E::InvalidInput
        | E::IsADirectory
        | E::NotADirectory
        | E::AlreadyExists
        | E::InvalidFilename => FileProblemKind::BadPath,
        E::ReadOnlyFilesystem | E::PermissionDenied => FileProblemKind::ReadOnly,
        E::StorageFull | E::QuotaExceeded | E::FileTooLarge => FileProblemKind::Full,
        _ => FileProblemKind::Failed,
    }
}

/// An error without the system's number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{text}. If the server takes root for nobody (root_squash), files need permissions for all, or an export with \
             no_root_squash"
        ),
        _ => text,
    }
}

/// The agent has ended, or the pipe to it broke. This problem reaches no user.
impl From<io::Error> for FileProblem {
    fn from(error: io::Error) -> Self {
        Self::of("go on", &error)
    }
}

impl From<TreeError> for FileProblem {
    fn from(error: TreeError) -> Self {
        let kind = match &error {
            TreeError::File { source, .. } => kind(source),
            TreeError::Changed(_) => FileProblemKind::Changed,
            TreeError::Nameless(_) | TreeError::Outside(_) | TreeError::Malformed(_) => {
                FileProblemKind::BadPath
            }
            TreeError::BrokenOff | TreeError::Closed(_) => FileProblemKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}
