//! Says how a storage is.

use std::io::{self, Write as _};
use std::path::Path;

use muster_tree::beneath::{Beneath, PARTIAL_PREFIX};

use super::channel::{DONE, FileChannel};
use super::problem::FileProblem;
use super::request::ProbeDone;

/// So many entries of the root directory are read.
const ENTRIES_MAX: u64 = 1_000;
/// What is written to the file that is made and removed.
const TEXT: &[u8] = b"muster\n";

pub(super) fn probe(
    root: &Beneath,
    is_read_only: bool,
    channel: &mut FileChannel,
) -> Result<(), FileProblem> {
    let failed = |error: io::Error| FileProblem::of_path(Path::new(""), &error);
    let space = rustix::fs::fstatvfs(root).map_err(|error| failed(error.into()))?;
    let entries = entries(root).map_err(failed)?;
    let unwritable = match is_read_only {
        true => Some("it is declared as readOnly".to_owned()),
        false => written(root)
            .err()
            .map(|error| FileProblem::of("make a file", &error).message),
    };
    let done = ProbeDone {
        size: space.f_blocks.saturating_mul(space.f_frsize),
        free: space.f_bavail.saturating_mul(space.f_frsize),
        entries,
        unwritable,
    };
    Ok(channel.send_json(DONE, &done)?)
}

fn entries(root: &Beneath) -> io::Result<u64> {
    let mut entries = 0;
    let read = root.each_name(|_| {
        entries += 1;
        match entries < ENTRIES_MAX {
            true => Ok(()),
            false => Err(io::Error::from(io::ErrorKind::Interrupted)),
        }
    });
    match read {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(entries),
    }
}

/// Makes a file and removes it.
fn written(root: &Beneath) -> io::Result<()> {
    let name = format!("{PARTIAL_PREFIX}probe-{}", std::process::id());
    let mut file = root.partial(&name, true)?;
    let written = file.write_all(TEXT).and_then(|()| file.sync_all());
    root.remove(&name)?;
    written
}
