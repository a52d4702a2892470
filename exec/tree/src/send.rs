//! Writes a tree as records, in the order of its paths.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{FileType, Stat};

use super::TreeError;
use super::beneath::{Beneath, PARTIAL_PREFIX};
use super::record::{TreeRecord, TreeRecordKind};

/// Directories in each other, at most: each of them is open while it is read.
const DEPTH_MAX: usize = 256;

/// Writes what is in a directory as [`TreeRecord`]s, without what comes up to the path `after`. Files of more than
/// `large` bytes come without content.
///
/// # Errors
/// [`TreeError`]; what was written until then is no whole tree.
pub fn send(
    root: &Beneath,
    after: Option<&str>,
    large: u64,
    into: &mut impl Write,
) -> Result<(), TreeError> {
    let after: Option<Vec<&OsStr>> = after.map(|path| {
        path.split('/')
            .filter(|it| !it.is_empty())
            .map(OsStr::new)
            .collect()
    });
    let mut sending = Sending { into, large };
    sending.directory(root, (Path::new(""), 0), after.as_deref())?;
    TreeRecord::end()
        .write(sending.into)
        .map_err(TreeError::Closed)?;
    sending.into.flush().map_err(TreeError::Closed)
}

struct Sending<'a, W> {
    into: &'a mut W,
    large: u64,
}

impl<W: Write> Sending<'_, W> {
    fn directory(
        &mut self,
        directory: &Beneath,
        (path, depth): (&Path, usize),
        after: Option<&[&OsStr]>,
    ) -> Result<(), TreeError> {
        let failed = |error| TreeError::of(path)(error);
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} directories in each other");
            return Err(failed(io::Error::other(message)));
        }
        let mut names = Vec::new();
        directory
            .each_name(|name| {
                names.push(name);
                Ok::<_, io::Error>(())
            })
            .map_err(failed)?;
        names.sort_unstable();
        for name in names {
            let rest = match after.and_then(<[_]>::split_first) {
                Some((first, _)) if *name < **first => continue,
                Some((first, rest)) if name == **first => Some(rest),
                _ => None,
            };
            self.entry(directory, (&path.join(&name), depth), (&name, rest))?;
        }
        Ok(())
    }

    /// `rest`: this entry was written before, and of what is in it what comes up to there.
    fn entry(
        &mut self,
        directory: &Beneath,
        (path, depth): (&Path, usize),
        (name, rest): (&OsString, Option<&[&OsStr]>),
    ) -> Result<(), TreeError> {
        if name
            .as_encoded_bytes()
            .starts_with(PARTIAL_PREFIX.as_bytes())
        {
            return Ok(());
        }
        let stat = match directory.stat(name) {
            Ok(stat) => stat,
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(TreeError::of(path)(error)),
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if rest.is_none() {
            self.record(directory, (path, name), (kind, &stat))?;
        }
        if kind == FileType::Directory {
            let below = directory.directory(name).map_err(TreeError::of(path))?;
            self.directory(
                &below,
                (path, depth + 1),
                rest.filter(|rest| !rest.is_empty()),
            )?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        directory: &Beneath,
        (path, name): (&Path, &OsStr),
        (kind, stat): (FileType, &Stat),
    ) -> Result<(), TreeError> {
        let failed = TreeError::of(path);
        let mut record = TreeRecord {
            kind: kind_of(kind),
            path: path.as_os_str().to_owned(),
            mode: stat.st_mode & 0o777,
            changed_s: stat.st_mtime,
            bytes: 0,
            target: OsString::new(),
        };
        match record.kind {
            TreeRecordKind::Link => record.target = directory.link_target(name).map_err(failed)?,
            TreeRecordKind::File => {
                let (file, metadata) = directory.file(name).map_err(failed)?;
                record.bytes = metadata.len();
                if record.bytes <= self.large {
                    return write_file(&record, file, self.into);
                }
                record.kind = TreeRecordKind::Large;
            }
            _ => {}
        }
        record.write(self.into).map_err(TreeError::Closed)
    }
}

/// Writes a record of a file, and its content.
///
/// # Errors
/// [`TreeError::Changed`] where the file is shorter than the record says.
pub fn write_file(record: &TreeRecord, file: File, into: &mut impl Write) -> Result<(), TreeError> {
    record.write(into).map_err(TreeError::Closed)?;
    let copied = io::copy(&mut file.take(record.bytes), into);
    match copied.map_err(TreeError::of(&record.path))? == record.bytes {
        true => Ok(()),
        false => Err(TreeError::Changed(record.path.clone().into())),
    }
}

fn kind_of(kind: FileType) -> TreeRecordKind {
    match kind {
        FileType::Directory => TreeRecordKind::Directory,
        FileType::RegularFile => TreeRecordKind::File,
        FileType::Symlink => TreeRecordKind::Link,
        _ => TreeRecordKind::Other,
    }
}
