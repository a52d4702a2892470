//! Bodies of documents beside the cluster's log: one file each, named by its hash.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::loops::cluster::hex;

/// A directory of bodies.
#[derive(Clone, Debug)]
pub(crate) struct Bodies(PathBuf);

/// A body could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {source}")]
pub(crate) struct Error {
    path: PathBuf,
    source: io::Error,
}

impl Bodies {
    /// The bodies in this directory, which is made if missing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let bodies = Self(path.to_owned());
        fs::create_dir_all(path).map_err(|source| bodies.error(source))?;
        Ok(bodies)
    }

    /// Keeps a body. On disk when this returns.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn keep(&self, hash: &[u8; 32], body: &[u8]) -> Result<(), Error> {
        let path = self.path(hash);
        let write = || {
            let temporary = path.with_extension("new");
            let mut file = fs::File::create(&temporary)?;
            file.write_all(body)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            fs::File::open(&self.0)?.sync_all()
        };
        write().map_err(|source| self.error(source))
    }

    /// A body, if it is there and is what its name says.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn read(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, Error> {
        match fs::read(self.path(hash)) {
            Ok(body) if Sha256::digest(&body)[..] == hash[..] => Ok(Some(body.into())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.error(source)),
        }
    }

    /// Removes every body but these. What cannot be removed stays, and is tried again next time.
    pub(crate) fn retain(&self, wanted: &[[u8; 32]]) {
        let names: Vec<_> = wanted.iter().map(|hash| hex(hash)).collect();
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            if !names.iter().any(|wanted| name == wanted.as_str()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, hash: &[u8; 32]) -> PathBuf {
        self.0.join(hex(hash))
    }

    fn error(&self, source: io::Error) -> Error {
        Error {
            path: self.0.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(body: &[u8]) -> [u8; 32] {
        Sha256::digest(body).into()
    }

    #[test]
    fn bodies_are_kept_by_hash_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let bodies = Bodies::open(&dir.path().join("bodies")).unwrap();
        for body in [b"one", b"two", b"six"] {
            bodies.keep(&hash(body), body).unwrap();
        }
        fs::write(bodies.path(&hash(b"two")), "damaged").unwrap();
        bodies.retain(&[hash(b"one"), hash(b"two")]);
        assert_eq!(
            bodies.read(&hash(b"one")).unwrap().as_deref(),
            Some(&b"one"[..])
        );
        assert_eq!(bodies.read(&hash(b"two")).unwrap(), None);
        assert_eq!(bodies.read(&hash(b"six")).unwrap(), None);
    }
}
