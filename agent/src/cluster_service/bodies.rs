//! Bodies of documents beside the cluster's log: one file each, named by its hash.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_control::answers::cluster::hash::hex;
use sha2::{Digest as _, Sha256};

/// Younger than this, what no version has may be about to get one.
const SETTLED: Duration = Duration::from_secs(600);

/// A directory of bodies.
#[derive(Clone, Debug)]
pub(crate) struct Bodies(PathBuf);

/// A body could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {source}")]
pub(crate) struct BodyFileError {
    path: PathBuf,
    source: io::Error,
}

impl Bodies {
    /// The bodies in this directory, which is made if missing.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn open(path: &Path) -> Result<Self, BodyFileError> {
        let bodies = Self(path.to_owned());
        fs::create_dir_all(path).map_err(|source| bodies.error(source))?;
        Ok(bodies)
    }

    /// Keeps a body. On disk when this returns.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn keep(&self, hash: &[u8; 32], body: &[u8]) -> Result<(), BodyFileError> {
        let path = self.path(hash);
        let write = || {
            let temporary = path.with_extension(format!("{:x}", rand::random::<u64>()));
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
    pub(crate) fn read(&self, hash: &[u8; 32]) -> Result<Option<Arc<[u8]>>, BodyFileError> {
        match fs::read(self.path(hash)) {
            Ok(body) if Sha256::digest(&body)[..] == hash[..] => Ok(Some(body.into())),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.error(source)),
        }
    }

    /// Whether there is a file for this body.
    pub(crate) fn has(&self, hash: &[u8; 32]) -> bool {
        self.path(hash).exists()
    }

    /// Removes every body but these and the newest. What cannot be removed stays, and is tried
    /// again next time.
    pub(crate) fn retain(&self, wanted: &[[u8; 32]]) {
        let names: Vec<_> = wanted.iter().map(|hash| hex(hash)).collect();
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let wanted = names.iter().any(|wanted| name == wanted.as_str());
            if !wanted && is_settled(&entry) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn path(&self, hash: &[u8; 32]) -> PathBuf {
        self.0.join(hex(hash))
    }

    fn error(&self, source: io::Error) -> BodyFileError {
        BodyFileError {
            path: self.0.clone(),
            source,
        }
    }
}

fn is_settled(entry: &fs::DirEntry) -> bool {
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    let age = modified.ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age >= SETTLED)
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
        let old = std::time::SystemTime::now() - SETTLED;
        for body in [b"one", b"two", b"six"] {
            let file = fs::File::options()
                .append(true)
                .open(bodies.path(&hash(body)));
            file.unwrap().set_modified(old).unwrap();
        }
        bodies.keep(&hash(b"new"), b"new").unwrap();
        bodies.retain(&[hash(b"one"), hash(b"two")]);
        assert!(bodies.has(&hash(b"new")));
        assert!(!bodies.has(&hash(b"six")));
        assert_eq!(
            bodies.read(&hash(b"one")).unwrap().as_deref(),
            Some(&b"one"[..])
        );
        assert_eq!(bodies.read(&hash(b"two")).unwrap(), None);
        assert_eq!(bodies.read(&hash(b"six")).unwrap(), None);
    }
}
