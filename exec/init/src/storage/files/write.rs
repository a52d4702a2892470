//! Writes a file under a temporary name, and renames it when all of its bytes are on the disk. Readers see the old
//! file or the whole new one.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use muster_tree::beneath::{Beneath, BeneathPlace, PARTIAL_PREFIX};
use muster_tree::finish;
use rustix::fs::FlockOperation;

use super::channel::{DATA, DONE, END, FileChannel, HEAD};
use super::problem::{FileProblem, FileProblemKind};
use super::read::check_prefix;
use super::request::{FileDone, FileHead, UPLOAD_CHARS_MAX, WriteStep};

/// So many bytes are written before the disk or the server has to have them: the last wait is short then.
const SYNC_BYTES: u64 = 32 << 20;

/// A file that is not whole yet, and its directory.
struct Partial<'a> {
    directory: &'a Beneath,
    name: String,
    file: File,
}

pub(super) fn write(
    root: &Beneath,
    path: &str,
    step: &WriteStep,
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let failed = |error: io::Error| FileProblem::of_path(Path::new(path), &error);
    let BeneathPlace { directory, name } = root.place(path).map_err(failed)?;
    let is_directory = || failed(io::ErrorKind::IsADirectory.into());
    let name = name.ok_or_else(is_directory)?;
    if directory.has_directory(&name) {
        return Err(is_directory());
    }
    let mut partial = Partial::open(&directory, step)?;
    let written = partial.fill(step, channel);
    let renamed = match written {
        Ok(Some(bytes)) => partial
            .become_whole(&name, step)
            .map_err(failed)
            .map(|()| bytes),
        // The other side is gone. What has come stays for its next try.
        Ok(None) => {
            let _ = partial.file.sync_all();
            if !step.is_kept {
                let _ = directory.remove(&partial.name);
            }
            return Ok(());
        }
        Err(problem) => Err(problem),
    };
    match renamed {
        Ok(bytes) => {
            let done = FileDone {
                bytes,
                files: 1,
                ..FileDone::default()
            };
            Ok(channel.send_json(DONE, &done)?)
        }
        Err(problem) => {
            // Nothing can be made of it, and a disk that is full is not to stay so for it.
            let _ = directory.remove(&partial.name);
            Err(problem)
        }
    }
}

/// Says how many bytes there are of an upload that broke off.
pub(super) fn kept(
    root: &Beneath,
    path: &str,
    upload: &str,
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let failed = |error: io::Error| FileProblem::of_path(Path::new(path), &error);
    let place = root.place(path).map_err(failed)?;
    let stat = place.directory.stat(partial_name(upload)?);
    let bytes = match stat {
        Ok(stat) => u64::try_from(stat.st_size).unwrap_or(0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(failed(error)),
    };
    let done = FileDone {
        bytes,
        ..FileDone::default()
    };
    Ok(channel.send_json(DONE, &done)?)
}

fn partial_name(upload: &str) -> Result<String, FileProblem> {
    let is_word = upload.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match is_word && !upload.is_empty() && upload.len() <= UPLOAD_CHARS_MAX {
        true => Ok(format!("{PARTIAL_PREFIX}{upload}")),
        false => Err(FileProblem::new(
            FileProblemKind::BadPath,
            format!("upload must be 1 to {UPLOAD_CHARS_MAX} letters and digits, not {upload:?}"),
        )),
    }
}

impl<'a> Partial<'a> {
    fn open(directory: &'a Beneath, step: &WriteStep) -> Result<Self, FileProblem> {
        let name = partial_name(&step.upload)?;
        let file = directory.partial(&name, false);
        let file = file.map_err(|error| FileProblem::of("begin the file", &error))?;
        // Servers without locks are no reason to refuse the file.
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            == Err(rustix::io::Errno::WOULDBLOCK)
        {
            let message = "the same upload is running already";
            return Err(FileProblem::new(FileProblemKind::Busy, message));
        }
        Ok(Self {
            directory,
            name,
            file,
        })
    }

    /// Takes the bytes that come; none where they broke off, else how many the file has.
    fn fill(
        &mut self,
        step: &WriteStep,
        channel: &mut FileChannel,
    ) -> Result<Option<u64>, FileProblem> {
        let failed = |error: io::Error| FileProblem::of("write the file", &error);
        if step.offset > 0 {
            let expected = step.prefix.as_deref().unwrap_or_default();
            check_prefix((&mut self.file, step.offset), expected, channel)?;
        }
        self.file.set_len(step.offset).map_err(failed)?;
        self.file
            .seek(SeekFrom::Start(step.offset))
            .map_err(failed)?;
        channel.send_json(HEAD, &FileHead::default())?;
        let (mut bytes, mut unsynced) = (step.offset, 0);
        loop {
            let frame = match channel.next() {
                Ok(Some(frame)) if matches!(frame.kind, DATA | END) => frame,
                _ => return Ok(None),
            };
            if frame.kind == END {
                break;
            }
            self.file.write_all(&frame.body).map_err(failed)?;
            bytes += frame.body.len() as u64;
            unsynced += frame.body.len() as u64;
            if unsynced >= SYNC_BYTES {
                self.file.sync_data().map_err(failed)?;
                unsynced = 0;
            }
        }
        match step.size {
            Some(size) if size != bytes => Err(FileProblem::new(
                FileProblemKind::Changed,
                format!(
                    "{bytes} bytes have come, not {size}: the file has changed meanwhile, so begin anew"
                ),
            )),
            _ => Ok(Some(bytes)),
        }
    }

    fn become_whole(&self, name: &str, step: &WriteStep) -> io::Result<()> {
        finish(&self.file, step.mode, step.changed_s)?;
        self.file.sync_all()?;
        self.directory.rename(&self.name, name)?;
        self.directory.sync()
    }
}
