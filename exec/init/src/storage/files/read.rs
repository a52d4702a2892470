//! Reads a file.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use muster_tree::beneath::{Beneath, BeneathPlace};
use sha2::{Digest as _, Sha256};

use super::channel::{BEAT, DATA, DATA_BYTES_MAX, DONE, FileChannel, HEAD};
use super::problem::{FileProblem, FileProblemKind};
use super::request::{FileDone, FileHead, ReadStep};

/// After so many bytes of a checksum the agent is told that it goes on.
const BEAT_BYTES: u64 = 16 << 20;

pub(super) fn read(
    root: &Beneath,
    path: &str,
    step: &ReadStep,
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let failed = |error: io::Error| FileProblem::of_path(Path::new(path), &error);
    let BeneathPlace { directory, name } = root.place(path).map_err(failed)?;
    let name = name.ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
    let (mut file, metadata) = directory.file(&name).map_err(failed)?;
    let head = head(step, &metadata)?;
    if let Some(expected) = &step.prefix {
        check_prefix((&mut file, head.start), expected, channel)?;
    }
    file.seek(SeekFrom::Start(head.start)).map_err(failed)?;
    channel.send_json(HEAD, &head)?;
    let mut part = vec![0; DATA_BYTES_MAX];
    let mut left = head.bytes;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(part.len(), |left| left.min(part.len()));
        let count = file.read(&mut part[..wanted]).map_err(failed)?;
        if count == 0 {
            break;
        }
        channel.send(DATA, &part[..count])?;
        left -= count as u64;
    }
    let now = file.metadata().map_err(failed)?;
    if left > 0 || !is_same(&metadata, &now) {
        let message = format!("{path}: it has changed while it was read");
        return Err(FileProblem::new(FileProblemKind::Changed, message));
    }
    let done = FileDone {
        bytes: head.bytes,
        files: 1,
        ..FileDone::default()
    };
    Ok(channel.send_json(DONE, &done)?)
}

/// Which bytes of the file are meant.
fn head(step: &ReadStep, metadata: &Metadata) -> Result<FileHead, FileProblem> {
    let size = metadata.len();
    let start = match step.tail {
        Some(bytes) => size.saturating_sub(bytes),
        None => step.start,
    };
    // Nothing is left of a file that came as a whole before.
    if start > size {
        let message = format!("the file has {size} bytes, and the range begins behind them");
        return Err(FileProblem::new(FileProblemKind::Range, message));
    }
    let end = step.end.map_or(size, |end| end.saturating_add(1).min(size));
    Ok(FileHead {
        size,
        changed_s: metadata.mtime(),
        start,
        bytes: end.saturating_sub(start),
    })
}

fn is_same(before: &Metadata, now: &Metadata) -> bool {
    let parts = |it: &Metadata| (it.len(), it.mtime(), it.mtime_nsec());
    parts(before) == parts(now)
}

/// Checks that the first bytes of a file are those with this SHA-256.
pub(super) fn check_prefix(
    (file, bytes): (&mut File, u64),
    expected: &str,
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let mut digest = Sha256::new();
    let mut part = vec![0; DATA_BYTES_MAX];
    let (mut left, mut quiet) = (bytes, 0);
    file.rewind()?;
    while left > 0 {
        let wanted = usize::try_from(left).map_or(part.len(), |left| left.min(part.len()));
        let count = file.read(&mut part[..wanted])?;
        if count == 0 {
            break;
        }
        digest.update(&part[..count]);
        left -= count as u64;
        quiet += count as u64;
        if quiet >= BEAT_BYTES {
            channel.send(BEAT, &[])?;
            quiet = 0;
        }
    }
    let found: String = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    match left == 0 && found.eq_ignore_ascii_case(expected) {
        true => Ok(()),
        false => Err(FileProblem::new(
            FileProblemKind::Changed,
            format!("its first {bytes} bytes are not those that came before: begin anew"),
        )),
    }
}
