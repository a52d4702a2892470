//! Reads a tree.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path};

use tar::Archive;

use super::{END, TreeError};

/// Reads a tree, as `cp -r` would copy it: into `path` where that is a directory, and else to that name. Files that
/// are there are replaced. A tree that comes under a new name is there as a whole or not at all.
///
/// # Errors
/// [`TreeError`]; a directory that was there may hold a part of the tree then.
pub fn unpack(from: impl Read, path: &Path) -> Result<(), TreeError> {
    if path.is_dir() {
        return unpack_into(from, path).map(drop);
    }
    let parent = match path.parent() {
        None => return Err(TreeError::Nameless(path.to_owned())),
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    };
    // On the same file system, so that it can be renamed.
    let made = tempfile::Builder::new()
        .prefix(".muster-cp-")
        .tempdir_in(parent);
    let beside = made.map_err(TreeError::of(parent))?;
    let name = unpack_into(from, beside.path())?;
    let renamed = fs::rename(beside.path().join(name), path);
    renamed.map_err(TreeError::of(path))
}

/// Reads a tree into a directory, and gives its name.
fn unpack_into(from: impl Read, directory: &Path) -> Result<OsString, TreeError> {
    let mut archive = Archive::new(from);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(true);
    archive.set_overwrite(true);
    let mut root = None;
    for entry in archive.entries().map_err(TreeError::Malformed)? {
        let mut entry = entry.map_err(TreeError::Malformed)?;
        let name = entry.path().map_err(TreeError::Malformed)?.into_owned();
        let first = first(&name).ok_or_else(|| TreeError::Outside(name.clone()))?;
        if *root.get_or_insert_with(|| first.clone()) != first {
            return Err(TreeError::Outside(name));
        }
        let unpacked = entry.unpack_in(directory);
        // Where it would lead out by a link, or by its path.
        if !unpacked.map_err(|error| failed(directory, &name, error))? {
            return Err(TreeError::Outside(name));
        }
    }
    let mut rest = Vec::new();
    let read = archive.into_inner().take(1 << 20).read_to_end(&mut rest);
    read.map_err(TreeError::Malformed)?;
    // The reader of archives leaves a part of the zeros behind the last entry.
    let zeros = rest.strip_suffix(END);
    let is_whole = zeros.is_some_and(|zeros| zeros.iter().all(|byte| *byte == 0));
    match (root, is_whole) {
        (Some(root), true) => Ok(root),
        _ => Err(TreeError::BrokenOff),
    }
}

/// The first part of a path that has no other parts than names.
fn first(path: &Path) -> Option<OsString> {
    let mut parts = path.components();
    let is_plain = parts
        .clone()
        .all(|part| matches!(part, Component::Normal(_)));
    match parts.next() {
        Some(Component::Normal(name)) if is_plain => Some(name.to_owned()),
        _ => None,
    }
}

/// Why an entry was not unpacked. The archive's error names the file once more, and holds that of the system.
fn failed(directory: &Path, name: &Path, error: io::Error) -> TreeError {
    let of_archive = error.get_ref().and_then(|error| error.source());
    let of_system = of_archive.and_then(|error| error.downcast_ref::<io::Error>());
    let (kind, text) = match of_system {
        Some(error) => (error.kind(), error.to_string()),
        None => (error.kind(), error.to_string()),
    };
    match kind {
        io::ErrorKind::UnexpectedEof => TreeError::BrokenOff,
        _ => TreeError::of(directory.join(name))(io::Error::new(kind, text)),
    }
}
