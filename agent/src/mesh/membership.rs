//! Which cluster this node belongs to, and its keys: files under `state/mesh`.

use std::io;
use std::path::{Path, PathBuf};

use muster_gossip::key::NodeKey;
use muster_gossip::member::MemberId;
use muster_gossip::net::keys::Ed25519Signer;
use serde::{Deserialize, Serialize};

use crate::key_file;

/// What a node keeps of its membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Membership {
    /// The cluster's name.
    pub(crate) name: String,
    /// Its root key: everything the cluster signs goes back to it.
    pub(crate) root: NodeKey,
    /// This node's number.
    pub(crate) member: MemberId,
}

/// The files could not be used, or do not hold what they should.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}")]
pub(crate) struct Error {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Where a member's files lie.
#[derive(Clone, Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    /// The files under this directory.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    fn membership(&self) -> PathBuf {
        self.0.join("membership.json")
    }

    /// What the member keeps of the mesh.
    pub(crate) fn keeper(&self) -> PathBuf {
        self.0.join("mesh.redb")
    }

    /// Bodies of documents, at nodes with a copy of the cluster's log.
    pub(crate) fn bodies(&self) -> PathBuf {
        self.0.join("bodies")
    }

    /// The membership, if there is one.
    ///
    /// # Errors
    /// When the file is there but cannot be read. A node then must not go on as if it were on
    /// its own.
    pub(crate) fn read(&self) -> Result<Option<Membership>, Error> {
        let path = self.membership();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error { path, source }),
        };
        match serde_json::from_slice(&text) {
            Ok(membership) => Ok(Some(membership)),
            Err(error) => Err(Error {
                path,
                source: error.into(),
            }),
        }
    }

    /// Writes the membership: from now on this node is a member, also after a restart.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&self, membership: &Membership) -> Result<(), Error> {
        let path = self.membership();
        let text = serde_json::to_vec_pretty(membership).map_err(io::Error::from);
        let written = text.and_then(|text| {
            std::fs::create_dir_all(&self.0)?;
            key_file::write_private(&path, &text)
        });
        written.map_err(|source| Error { path, source })
    }

    /// Ends the membership on disk. The node key stays: it is the machine's own. What the
    /// cluster kept here is put aside rather than lost.
    ///
    /// # Errors
    /// When the disk refuses; then it is a member still.
    pub(crate) fn end(&self) -> Result<(), Error> {
        let path = self.membership();
        let removed = match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        removed.map_err(|source| Error { path, source })?;
        for path in [self.keeper(), self.bodies()] {
            let aside = path.with_extension("left");
            remove(&aside);
            // What is not there need not be put aside.
            let _ = std::fs::rename(&path, &aside);
        }
        for key in ["root.key", "signing.key"] {
            let path = self.0.join(key);
            let _ = std::fs::rename(&path, path.with_extension("left"));
        }
        Ok(())
    }

    /// The node key, made at the first call.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds no key.
    pub(crate) fn node_key(&self) -> Result<Ed25519Signer, Error> {
        self.key("node.key")
    }

    /// The cluster's root key, made at the first call. Only its founder has it.
    ///
    /// # Errors
    /// As [`Files::node_key`].
    pub(crate) fn root_key(&self) -> Result<Ed25519Signer, Error> {
        self.key("root.key")
    }

    /// The key that signs for the cluster, made at the first call.
    ///
    /// # Errors
    /// As [`Files::node_key`].
    pub(crate) fn signing_key(&self) -> Result<Ed25519Signer, Error> {
        self.key("signing.key")
    }

    fn key(&self, name: &str) -> Result<Ed25519Signer, Error> {
        let path = self.0.join(name);
        let read = || {
            std::fs::create_dir_all(&self.0)?;
            let make = || Ed25519Signer::generate().seed().to_vec();
            let bytes = key_file::read_or_make(&path, make)?;
            Ed25519Signer::from_bytes(&bytes).map_err(io::Error::other)
        };
        read().map_err(|source| Error {
            path: path.clone(),
            source,
        })
    }
}

fn remove(path: &Path) {
    // One of the two fits, or there is nothing.
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_dir_all(path);
}

#[cfg(test)]
mod tests {
    use muster_gossip::key::Sign as _;

    use super::*;

    #[test]
    fn a_membership_lasts_until_it_is_ended_and_the_node_key_longer() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path().join("mesh"));
        assert_eq!(files.read().unwrap(), None);
        let key = files.node_key().unwrap().key();
        let membership = Membership {
            name: "lab".to_owned(),
            root: files.root_key().unwrap().key(),
            member: MemberId(3),
        };
        files.write(&membership).unwrap();
        assert_eq!(files.read().unwrap(), Some(membership.clone()));
        files.end().unwrap();
        assert_eq!(files.read().unwrap(), None);
        assert_eq!(files.node_key().unwrap().key(), key);
        assert_ne!(files.root_key().unwrap().key(), membership.root);
    }

    #[test]
    fn a_damaged_membership_is_no_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path().to_owned());
        std::fs::write(files.membership(), "{").unwrap();
        assert!(files.read().is_err());
    }
}
