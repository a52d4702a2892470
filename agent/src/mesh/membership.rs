//! Which cluster this node belongs to, and its keys: files under `state/mesh`.
//!
//! `node.key` is the machine's own for good. `own/` holds the cluster that the node founded at its
//! first start. `joined/` holds the one that it joined, while it is a member there; the node's own
//! cluster rests meanwhile.

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
pub(crate) struct StoredMembership {
    /// The cluster's name; empty while it has none, or while that is not known here.
    pub(crate) name: String,
    /// Its root key: everything the cluster signs goes back to it.
    pub(crate) root: NodeKey,
    /// This node's number.
    pub(crate) member: MemberId,
    /// Whether the ports of the mesh are open. A cluster that has no name has one member, and needs
    /// none.
    pub(crate) open: bool,
}

/// The files could not be used, or do not hold what they should.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}")]
pub(crate) struct MembershipFileError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Where a node keeps its memberships.
#[derive(Clone, Debug)]
pub(crate) struct Files(PathBuf);

impl Files {
    /// The files under this directory.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    /// The cluster that this node founded.
    pub(crate) fn own(&self) -> Folder {
        Folder(self.0.join("own"))
    }

    /// The cluster that it joined.
    pub(crate) fn joined(&self) -> Folder {
        Folder(self.0.join("joined"))
    }

    /// The membership that counts: the joined one, else the node's own. None before the first start
    /// has founded a cluster.
    ///
    /// # Errors
    /// When a file is there but cannot be read. A node must not go on then as if it were in
    /// another cluster.
    pub(crate) fn current(
        &self,
    ) -> Result<Option<(Folder, StoredMembership)>, MembershipFileError> {
        for folder in [self.joined(), self.own()] {
            if let Some(membership) = folder.read()? {
                return Ok(Some((folder, membership)));
            }
        }
        Ok(None)
    }

    /// The node key, made at the first call.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds no key.
    pub(crate) fn node_key(&self) -> Result<Ed25519Signer, MembershipFileError> {
        key(self.0.join("node.key"))
    }
}

/// The files of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    fn membership(&self) -> PathBuf {
        self.0.join("membership.json")
    }

    /// What the member keeps of the mesh.
    pub(crate) fn mesh_file(&self) -> PathBuf {
        self.0.join("mesh.redb")
    }

    /// What the cluster told its members last.
    pub(crate) fn cluster_map(&self) -> PathBuf {
        self.0.join("cluster_map")
    }

    /// Bodies of documents, at nodes with a copy of the cluster's log.
    pub(crate) fn bodies(&self) -> PathBuf {
        self.0.join("bodies")
    }

    /// The membership, if there is one.
    ///
    /// # Errors
    /// When the file is there but cannot be read.
    fn read(&self) -> Result<Option<StoredMembership>, MembershipFileError> {
        let path = self.membership();
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MembershipFileError { path, source }),
        };
        match serde_json::from_slice(&text) {
            Ok(membership) => Ok(Some(membership)),
            Err(error) => Err(MembershipFileError {
                path,
                source: error.into(),
            }),
        }
    }

    /// Makes the directory, which is for root alone.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn make(&self) -> Result<(), MembershipFileError> {
        std::fs::create_dir_all(&self.0).map_err(|source| MembershipFileError {
            path: self.0.clone(),
            source,
        })
    }

    /// Writes the membership: it counts from now on, also after a restart.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&self, membership: &StoredMembership) -> Result<(), MembershipFileError> {
        self.make()?;
        let path = self.membership();
        let text = serde_json::to_vec_pretty(membership).map_err(io::Error::from);
        let written = text.and_then(|text| key_file::write_private(&path, &text));
        written.map_err(|source| MembershipFileError { path, source })
    }

    /// Ends the membership on disk. What the cluster kept here is put aside as `*.left`; what was
    /// put aside before is removed.
    ///
    /// # Errors
    /// When the disk refuses; then it is a member still.
    pub(crate) fn put_aside(&self) -> Result<(), MembershipFileError> {
        let path = self.membership();
        let fail = |source| MembershipFileError {
            path: path.clone(),
            source,
        };
        let aside = self.0.with_extension("left");
        match std::fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        match std::fs::rename(&self.0, &aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fail(error)),
            _ => Ok(()),
        }
    }

    /// The cluster's root key, made at the first call. Only its founder has it.
    ///
    /// # Errors
    /// As [`Files::node_key`].
    pub(crate) fn root_key(&self) -> Result<Ed25519Signer, MembershipFileError> {
        key(self.0.join("root.key"))
    }

    /// The key that signs for the cluster, made at the first call.
    ///
    /// # Errors
    /// As [`Files::node_key`].
    pub(crate) fn signing_key(&self) -> Result<Ed25519Signer, MembershipFileError> {
        key(self.0.join("signing.key"))
    }
}

fn key(path: PathBuf) -> Result<Ed25519Signer, MembershipFileError> {
    let read = || {
        let directory = path.parent().unwrap_or_else(|| Path::new("."));
        std::fs::create_dir_all(directory)?;
        let make = || Ed25519Signer::generate().seed().to_vec();
        let bytes = key_file::read_or_make(&path, make)?;
        Ed25519Signer::from_bytes(&bytes).map_err(io::Error::other)
    };
    read().map_err(|source| MembershipFileError {
        path: path.clone(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use muster_gossip::key::Sign as _;

    use super::*;

    fn membership(folder: &Folder, member: u32) -> StoredMembership {
        StoredMembership {
            name: "lab".to_owned(),
            root: folder.root_key().unwrap().key(),
            member: MemberId(member),
            open: true,
        }
    }

    #[test]
    fn a_joined_membership_counts_until_it_is_put_aside_and_the_own_one_rests() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path().join("mesh"));
        assert!(files.current().unwrap().is_none());
        let key = files.node_key().unwrap().key();
        let (own, joined) = (files.own(), files.joined());
        let [first, second] = [membership(&own, 0), membership(&joined, 3)];
        let current = || files.current().unwrap().unwrap().1;
        own.write(&first).unwrap();
        assert_eq!(current(), first);
        joined.write(&second).unwrap();
        assert_eq!(current(), second);
        joined.put_aside().unwrap();
        assert_eq!(current(), first);
        // A second one takes the place of what was put aside before.
        joined.write(&second).unwrap();
        joined.put_aside().unwrap();
        assert_eq!(current(), first);
        own.put_aside().unwrap();
        assert!(files.current().unwrap().is_none());
        assert_ne!(own.root_key().unwrap().key(), first.root, "a new cluster");
        assert_eq!(files.node_key().unwrap().key(), key, "the machine's own");
    }

    #[test]
    fn a_damaged_membership_is_no_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path().to_owned());
        files.own().write(&membership(&files.own(), 0)).unwrap();
        files.joined().make().unwrap();
        std::fs::write(files.joined().membership(), "{").unwrap();
        assert!(files.current().is_err());
    }
}
