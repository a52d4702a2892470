//! The two shapes of a counter's file: one number, or lines of a name and a number.

use std::path::Path;

use super::CgroupError;

/// So much of a file that could not be understood is told.
const SHOWN_CHARS: usize = 80;

/// A file of one number.
pub(super) fn number(path: &Path) -> Result<u64, CgroupError> {
    let text = read(path)?;
    text.trim().parse().map_err(|_| malformed(path, &text))
}

/// The number behind `name` in a file of `name number` lines.
pub(super) fn field(path: &Path, name: &str) -> Result<u64, CgroupError> {
    let text = read(path)?;
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(key, _)| *key == name)
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| malformed(path, &text))
}

fn read(path: &Path) -> Result<String, CgroupError> {
    std::fs::read_to_string(path).map_err(|source| CgroupError::Read {
        path: path.to_owned(),
        source,
    })
}

fn malformed(path: &Path, text: &str) -> CgroupError {
    CgroupError::Malformed {
        path: path.to_owned(),
        text: text.chars().take(SHOWN_CHARS).collect(),
    }
}
