//! Small files of the kernel below a machine's root: read whole, trimmed.

use std::fs;
use std::path::{Path, PathBuf};

/// The text of a file. None if it is not there or cannot be read. Some kernels end a file with
/// a zero byte.
pub(crate) fn text(path: impl AsRef<Path>) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    Some(text.to_owned())
}

/// A decimal number.
pub(crate) fn number(path: impl AsRef<Path>) -> Option<i64> {
    text(path)?.parse().ok()
}

/// A hexadecimal number as PCI files have it: `0x10de`.
pub(crate) fn hex(path: impl AsRef<Path>) -> Option<u32> {
    let text = text(path)?;
    u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

/// What is in a directory, by name and in the order of names; nothing if there is none.
pub(crate) fn entries(dir: impl AsRef<Path>) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, entry.path()))
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    named
}

/// Entries whose name is `prefix` and a decimal number, in the order of numbers.
pub(crate) fn numbered(dir: impl AsRef<Path>, prefix: &str) -> Vec<(u32, PathBuf)> {
    let entries = entries(dir).into_iter();
    let numbered = entries.filter_map(|(name, path)| {
        let digits = name.strip_prefix(prefix)?;
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        Some((is_number.then_some(digits)?.parse().ok()?, path))
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort();
    numbered
}
