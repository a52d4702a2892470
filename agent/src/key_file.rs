//! Keys in files of mode 0600, made once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Reads the key in `path`; makes it with `make` if the file does not exist. Two agents that
/// start at once cannot make two keys: the file appears with its content or not at all.
///
/// # Errors
/// When the file cannot be read or written. A key is never replaced.
pub(crate) fn read_or_make(path: &Path, make: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    match File::open(path) {
        Ok(mut file) => {
            let mut key = Vec::new();
            file.read_to_end(&mut key)?;
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let key = make();
            write_private(path, &key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically with content that only root may read.
///
/// # Errors
/// When the disk refuses; the old file is then still there.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        assert_eq!(read_or_make(&path, || vec![1, 2]).unwrap(), [1, 2]);
        assert_eq!(read_or_make(&path, || vec![3]).unwrap(), [1, 2]);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
