//! Lists a directory in pages, in the order of names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use muster_tree::beneath::{Beneath, BeneathPlace};
use rustix::fs::{FileType, Stat};

use super::channel::{BEAT, DONE, ENTRIES, FileChannel};
use super::problem::FileProblem;
use super::request::{FileDone, FileEntry, FileEntryKind};

/// Entries in a frame: even the longest names fit.
const PART: usize = 500;
/// After so many names that were read the agent is told that it goes on.
const BEAT_NAMES: usize = 4_096;

/// The directory that a path names.
pub(super) fn directory(root: &Beneath, path: &str) -> Result<Beneath, FileProblem> {
    let failed = |error: io::Error| FileProblem::of_path(Path::new(path), &error);
    let BeneathPlace { directory, name } = root.place(path).map_err(failed)?;
    match name {
        None => Ok(directory),
        Some(name) => directory.directory(name).map_err(failed),
    }
}

pub(super) fn list(
    root: &Beneath,
    path: &str,
    (after, limit): (Option<&str>, u32),
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let failed = |error: io::Error| FileProblem::of_path(Path::new(path), &error);
    let BeneathPlace {
        directory: above,
        name,
    } = root.place(path).map_err(failed)?;
    if let Some(name) = name.as_ref().filter(|name| !above.has_directory(name)) {
        let stat = above.stat(name).map_err(failed)?;
        let entry = entry(&above, name.as_ref(), &stat);
        channel.send_json(ENTRIES, &[entry])?;
        return Ok(channel.send_json(DONE, &FileDone::default())?);
    }
    let directory = directory(root, path)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let (names, has_more) = page(&directory, (after, limit), channel)?;
    let mut entries = Vec::new();
    for name in names {
        match directory.stat(&name) {
            Ok(stat) => entries.push(entry(&directory, &name, &stat)),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FileProblem::of_path(Path::new(&name), &error)),
        }
        if entries.len() == PART {
            channel.send_json(ENTRIES, &std::mem::take(&mut entries))?;
        }
    }
    channel.send_json(ENTRIES, &entries)?;
    let done = FileDone {
        is_directory: true,
        has_more,
        ..FileDone::default()
    };
    Ok(channel.send_json(DONE, &done)?)
}

/// The first names behind `after`, and whether there are more. No more of them are kept than are wanted.
fn page(
    directory: &Beneath,
    (after, limit): (Option<&str>, usize),
    channel: &mut FileChannel,
) -> Result<(BTreeSet<OsString>, bool), FileProblem> {
    let mut names = BTreeSet::new();
    let (mut has_more, mut seen) = (false, 0);
    directory.each_name(|name| {
        seen += 1;
        if seen % BEAT_NAMES == 0 {
            channel.send(BEAT, &[])?;
        }
        if after.is_some_and(|after| *name <= *OsStr::new(after)) {
            return Ok(());
        }
        names.insert(name);
        if names.len() > limit {
            names.pop_last();
            has_more = true;
        }
        Ok::<_, FileProblem>(())
    })?;
    Ok((names, has_more))
}

fn entry(directory: &Beneath, name: &OsStr, stat: &Stat) -> FileEntry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => FileEntryKind::Directory,
        FileType::RegularFile => FileEntryKind::File,
        FileType::Symlink => FileEntryKind::Link,
        _ => FileEntryKind::Other,
    };
    let target = (kind == FileEntryKind::Link).then(|| directory.link_target(name).ok());
    FileEntry {
        name: name.to_string_lossy().into_owned(),
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        changed_s: stat.st_mtime,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        target: target
            .flatten()
            .map(|target| target.to_string_lossy().into_owned()),
    }
}
