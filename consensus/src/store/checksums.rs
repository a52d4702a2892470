//! Whether a file that redb cannot use is damaged, or redb at fault.
//!
//! redb looks at its checksums only in a file that was not closed. So a copy of the file is made to look
//! like one that was not, by the head of it, which redb documents (`docs/design.md` there, "Database
//! super-header").

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{RedbFailure, builder, is_damage, sound};

const FLAGS_AT: u64 = 9;
const SECOND_IS_NEWEST: u8 = 1;
const WAS_NOT_CLOSED: u8 = 2;
/// It was on the disk before it was named the newest.
const NEWEST_IS_SURE: u8 = 4;
const FIRST_SLOT_AT: u64 = 64;
const SECOND_SLOT_AT: u64 = 192;
const SLOT_BYTES: usize = 128;

/// redb says how far it is with making a file whole again: it has seen checksums when it is beyond this.
const HAS_SEEN_THEM: f64 = 0.5;

/// What the checksums of a file say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChecksumVerdict {
    /// One at least is wrong, for this reason.
    Wrong(String),
    /// All are right that redb would go by.
    Right {
        /// Whether those of the last write are right too.
        of_last: bool,
    },
    /// No copy can be made, for this reason.
    NoRoom(String),
    /// They cannot be looked at, for this reason.
    Unknown(String),
}

/// Looks at the checksums in a file that nobody has open. It takes room for a copy of it for so long.
pub(super) fn look(path: &Path) -> ChecksumVerdict {
    let verdict = match prepare(path) {
        Ok(copy) => verdict(&copy),
        Err(error) => ChecksumVerdict::NoRoom(error.to_string()),
    };
    forget(path);
    verdict
}

/// Drops what a look left that did not come to its end.
pub(super) fn forget(path: &Path) {
    // Where it does not go away the next look begins with it.
    let _ = std::fs::remove_file(copy_of(path));
}

fn copy_of(path: &Path) -> PathBuf {
    path.with_extension("check")
}

/// What redb does to make a file whole again begins with the checksums. Whatever it stumbles over afterwards
/// is not damage: it has written that itself.
fn verdict(copy: &Path) -> ChecksumVerdict {
    let (went_back, has_seen) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (goes_back, sees) = (Rc::clone(&went_back), Rc::clone(&has_seen));
    let opened = sound(move || {
        let mut builder = builder();
        builder.set_repair_callback(move |session| {
            let far = session.progress();
            if far > HAS_SEEN_THEM {
                sees.set(true);
                session.abort();
            } else if far > 0.0 {
                goes_back.set(true);
            }
        });
        drop(builder.open(copy)?);
        Ok(())
    });
    let of_last = !went_back.get();
    match opened {
        _ if has_seen.get() => ChecksumVerdict::Right { of_last },
        Ok(()) => ChecksumVerdict::Unknown("redb has not looked".to_owned()),
        Err(RedbFailure::Refused(error)) if is_damage(&error) => {
            ChecksumVerdict::Wrong(error.to_string())
        }
        Err(RedbFailure::Refused(error)) => ChecksumVerdict::Unknown(error.to_string()),
        Err(RedbFailure::Panicked(problem)) => {
            ChecksumVerdict::Unknown(format!("redb panicked: {problem}"))
        }
    }
}

fn prepare(path: &Path) -> io::Result<PathBuf> {
    let copy = copy_of(path);
    std::fs::copy(path, &copy)?;
    let file = OpenOptions::new().read(true).write(true).open(&copy)?;
    match unclose(&file) {
        // It ends within its head: redb will say so.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(copy),
        done => done.map(|()| copy),
    }
}

/// Makes a file look as if it was not closed. What it held before its last write counts for nothing where
/// that one was sure, as it is in a file that was closed: redb would go back to it.
fn unclose(file: &File) -> io::Result<()> {
    let mut flags = [0];
    file.read_exact_at(&mut flags, FLAGS_AT)?;
    let [flags] = flags;
    if flags & NEWEST_IS_SURE != 0 {
        let (newest, other) = match flags & SECOND_IS_NEWEST {
            0 => (FIRST_SLOT_AT, SECOND_SLOT_AT),
            _ => (SECOND_SLOT_AT, FIRST_SLOT_AT),
        };
        let mut slot = [0; SLOT_BYTES];
        file.read_exact_at(&mut slot, newest)?;
        file.write_all_at(&slot, other)?;
    }
    file.write_all_at(&[flags & !NEWEST_IS_SURE | WAS_NOT_CLOSED], FLAGS_AT)
}
