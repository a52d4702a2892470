//! A text file that a command is given, or `-` for stdin.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::CliError;

/// Reads `path` whole; a file larger than `bytes_max` or not in UTF-8 is an error.
pub(super) fn read(path: &Path, bytes_max: u64) -> Result<String, CliError> {
    let failed = |source| CliError::Read {
        path: shown(path),
        source,
    };
    let text = if path == Path::new("-") {
        bounded(io::stdin().lock(), bytes_max)
    } else {
        File::open(path).and_then(|file| bounded(file, bytes_max))
    };
    text.map_err(failed)
}

/// Reads all of a source; more than `bytes_max` or what is not in UTF-8 is an error.
pub(super) fn bounded(source: impl Read, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    source.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let why = format!("it is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

fn shown(path: &Path) -> PathBuf {
    if path == Path::new("-") {
        "stdin".into()
    } else {
        path.into()
    }
}
