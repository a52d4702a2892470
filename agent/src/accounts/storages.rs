//! The credentials of storages, sealed with the cluster's key.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use muster_model::storage::{SEALED_PREFIX, Storage};

use super::Accounts;
use crate::keyring::Keyring;

impl Accounts {
    /// A credential of the storage of this name, sealed for it.
    ///
    /// # Errors
    /// When this node does not know the cluster's keys yet.
    pub(crate) fn seal_credential(&self, storage: &str, secret: &str) -> Result<String, String> {
        let keyring = self.keyring().map_err(|error| error.to_string())?;
        let sealed = keyring.sealer.seal(&owner(storage), secret.as_bytes());
        let sealed = sealed.map_err(|error| error.to_string())?;
        Ok(format!("{SEALED_PREFIX}{}", STANDARD_NO_PAD.encode(sealed)))
    }

    /// A declared storage with its credentials in clear, for the memory of this process alone. Waits for the cluster's
    /// keys.
    ///
    /// # Errors
    /// Why they cannot be opened, and what to do.
    pub(crate) async fn open_storage(&self, storage: &Storage) -> Result<Storage, String> {
        let keyring = self.keyring_soon().await;
        let opened = storage.with_opened(|text| open(&keyring, &storage.name, text));
        opened.ok_or_else(|| {
            "its credentials were sealed for another storage or cluster: write them anew in the declaration"
                .to_owned()
        })
    }
}

/// Whom credentials are sealed for. No job has such a name.
fn owner(storage: &str) -> String {
    format!("storage/{storage}")
}

fn open(keyring: &Keyring, storage: &str, text: &str) -> Option<String> {
    let text = text.strip_prefix(SEALED_PREFIX)?;
    let sealed = STANDARD_NO_PAD.decode(text).ok()?;
    let secret = keyring.sealer.open_sealed(&owner(storage), &sealed).ok()?;
    String::from_utf8(secret).ok()
}
