//! Whether a file that redb panicked on is damaged, or redb at fault.
//!
//! redb looks at its checksums only in a file that was not closed. So a copy of the file is made to look
//! like one that was not, by the head of it, which redb documents (`docs/design.md` there, "Database
//! super-header").

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{Failure, builder, is_damage, sound};

const FLAGS_AT: u64 = 9;
const SECOND_IS_NEWEST: u8 = 1;
const WAS_NOT_CLOSED: u8 = 2;
/// It was on the disk before it was named the newest.
const NEWEST_IS_SURE: u8 = 4;
const SLOTS_AT: u64 = 64;
const SLOT_BYTES: u64 = 128;

/// What the checksums of a file say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// One at least is wrong, for this reason.
    Wrong(String),
    /// All are right.
    Right,
    /// They cannot be looked at, for this reason.
    Unknown(String),
}

/// Looks at the checksums in a file that nobody has open. It takes room for a copy of it for so long.
pub(super) fn look(path: &Path) -> Verdict {
    let copy = path.with_extension("check");
    let verdict = match prepare(path, &copy) {
        Ok(()) => verdict(&copy),
        Err(error) => Verdict::Unknown(format!("no copy of it can be made: {error}")),
    };
    // Where it does not go away the next look begins with it.
    let _ = std::fs::remove_file(&copy);
    verdict
}

fn verdict(copy: &Path) -> Verdict {
    let opened = sound(|| {
        drop(builder().open(copy)?);
        Ok(())
    });
    match opened {
        Ok(()) => Verdict::Right,
        Err(Failure::Refused(error)) if is_damage(&error) => Verdict::Wrong(error.to_string()),
        Err(Failure::Refused(error)) => Verdict::Unknown(error.to_string()),
        Err(Failure::Panicked(problem)) => Verdict::Unknown(format!("redb panicked: {problem}")),
    }
}

fn prepare(path: &Path, copy: &Path) -> io::Result<()> {
    std::fs::copy(path, copy)?;
    let file = OpenOptions::new().read(true).write(true).open(copy)?;
    unclose(&file)
}

/// Makes a file look as if it was not closed. What it held before its last write counts for nothing where
/// that one was sure, as it is in a file that was closed: redb would go back to it.
fn unclose(file: &File) -> io::Result<()> {
    let mut flags = [0];
    file.read_exact_at(&mut flags, FLAGS_AT)?;
    let [flags] = flags;
    if flags & NEWEST_IS_SURE != 0 {
        let newest = u64::from(flags & SECOND_IS_NEWEST);
        let at = |slot: u64| SLOTS_AT + slot * SLOT_BYTES;
        let mut slot = [0; SLOT_BYTES as usize];
        file.read_exact_at(&mut slot, at(newest))?;
        file.write_all_at(&slot, at(1 - newest))?;
    }
    file.write_all_at(&[flags & !NEWEST_IS_SURE | WAS_NOT_CLOSED], FLAGS_AT)
}
