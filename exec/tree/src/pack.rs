//! Writes a tree.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tar::Builder;

use super::{END, TreeError};

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// Writes the file or the directory at `path`, under its own name. Symbolic links in it stay links.
///
/// # Errors
/// [`TreeError`]; what was written until then is no whole stream.
pub fn pack(path: &Path, into: impl Write) -> Result<(), TreeError> {
    // A path may end in `.`, and it may be a link: its own name is not the name of what it stands for.
    let whole = fs::canonicalize(path).map_err(TreeError::of(path))?;
    let named = path.file_name().or_else(|| whole.file_name());
    let name = named.ok_or_else(|| TreeError::Nameless(path.to_owned()))?;
    let mut archive = Builder::new(io::BufWriter::with_capacity(WRITE_BYTES, into));
    archive.follow_symlinks(false);
    let written = match whole.is_dir() {
        true => archive.append_dir_all(name, &whole),
        false => archive.append_path_with_name(&whole, name),
    };
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => TreeError::Closed(error),
        _ => TreeError::of(path)(error),
    })?;
    let ended = archive.into_inner().and_then(|mut into| {
        into.write_all(END)?;
        into.flush()
    });
    ended.map_err(TreeError::Closed)
}
