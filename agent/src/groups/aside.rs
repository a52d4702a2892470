//! What is damaged is kept beside the file that takes its place.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Copies a file to a name beside it that is free, and says which. The copy is on disk when this
/// returns.
///
/// # Errors
/// When the disk refuses.
pub(super) fn copy(path: &Path) -> io::Result<PathBuf> {
    let aside = free(path);
    std::fs::copy(path, &aside)?;
    File::open(&aside)?.sync_all()?;
    sync_directory(&aside)?;
    Ok(aside)
}

/// Moves a file to a name beside it that is free, and says which. That is on disk when this returns.
///
/// # Errors
/// When the disk refuses.
pub(super) fn put(path: &Path) -> io::Result<PathBuf> {
    let aside = free(path);
    std::fs::rename(path, &aside)?;
    sync_directory(&aside)?;
    Ok(aside)
}

/// `log.damaged` for `log.redb`, or with the first number that nothing has yet: what was put aside
/// before may be wanted still.
fn free(path: &Path) -> PathBuf {
    let first = path.with_extension("damaged");
    let further = (2_u64..).map(|nth| path.with_extension(format!("damaged-{nth}")));
    let mut names = [first.clone()].into_iter().chain(further);
    names.find(|name| !name.exists()).unwrap_or(first)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
