//! Paths of requests.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::packet::{Fields, SftpError};

/// The path in a request. An empty one is the working directory.
pub(super) fn path(fields: &mut Fields) -> Result<PathBuf, SftpError> {
    let bytes = fields.text()?;
    Ok(match bytes {
        [] => PathBuf::from("."),
        bytes => PathBuf::from(OsStr::from_bytes(bytes)),
    })
}

/// The absolute path of what need not exist: links are followed as far as it does.
pub(super) fn absolute(path: &Path) -> io::Result<PathBuf> {
    if let Ok(known) = path.canonicalize() {
        return Ok(known);
    }
    let mut whole = std::env::current_dir()?;
    for component in path.components() {
        match component {
            Component::RootDir => whole = PathBuf::from("/"),
            Component::Normal(name) => whole.push(name),
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(whole)
}

/// A path that may begin with `~`, the home directory.
pub(super) fn expanded(path: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(below) => home.join(below),
        Err(_) => path.to_owned(),
    }
}
