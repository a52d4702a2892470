//! The sealed secrets of a task's job, beside its logs. The agent keeps parts of the logs, also after a restart, and has
//! to take the secrets out of them first.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use muster_model::launch::TaskSpec;
use muster_model::protocol::Secrets;
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::key_file::write_private;
use crate::seal::SealError;

/// The file in the task's directory.
const FILE: &str = "secrets.sealed";
/// As the runner makes that directory.
const MODE_PRIVATE: u32 = 0o700;

/// Secrets that are not opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SealedSecrets {
    /// Whom they were sealed for: the job.
    owner: String,
    /// The ciphertext.
    bytes: Vec<u8>,
}

/// Why secrets cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Sealed(#[from] SealError),
    #[error("the job's secrets are damaged")]
    Body(#[from] postcard::Error),
}

impl SealedSecrets {
    /// Those of a task; none if its job has none.
    pub(super) fn of(spec: &TaskSpec) -> Option<Self> {
        let bytes = spec.sealed_secrets.clone();
        let owner = spec.job.to_string();
        (!bytes.is_empty()).then_some(Self { owner, bytes })
    }

    /// Opens them. Waits for the cluster's keys: a member that starts with no file of them gets them soon.
    ///
    /// # Errors
    /// When they were sealed with another key, or are damaged.
    pub(crate) async fn open(&self, accounts: &Accounts) -> Result<Secrets, OpenError> {
        let keyring = accounts.keyring_soon().await;
        let bytes = keyring.sealer.open_sealed(&self.owner, &self.bytes)?;
        Ok(postcard::from_bytes(&bytes)?)
    }

    /// Keeps them in the task's directory, which is made if it is not there.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(MODE_PRIVATE)
            .create(directory)?;
        let bytes = postcard::to_stdvec(self).map_err(io::Error::other)?;
        write_private(&directory.join(FILE), &bytes)
    }

    /// Those in a task's directory; none if its job has none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read(directory: &Path) -> io::Result<Option<Self>> {
        match fs::read(directory.join(FILE)) {
            Ok(bytes) => postcard::from_bytes(&bytes)
                .map(Some)
                .map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_written_and_damage_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let task = home.path().join("t-0");
        assert_eq!(SealedSecrets::read(&task).unwrap(), None);
        let sealed = SealedSecrets {
            owner: "ada~train".to_owned(),
            bytes: vec![1, 2, 3],
        };
        sealed.write(&task).unwrap();
        assert_eq!(SealedSecrets::read(&task).unwrap(), Some(sealed));
        fs::write(task.join(FILE), [200]).unwrap();
        assert!(SealedSecrets::read(&task).is_err());
    }
}
