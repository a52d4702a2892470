//! The state of the `cluster` group: who is a member, which tokens admit, which version of each
//! document is in force, and how it came there. What its log says, and nothing else.
//!
//! [`ClusterState::apply`] is the only way to change it. It knows no clock: times are in the
//! entries. What follows for the mesh are [`Statement`]s, which the cluster's key signs;
//! [`ClusterState::judge`] says whether a stranger may join, and [`steps`] what comes next for a
//! document.
//!
//! # Invariants
//! A member's number is never given twice. A use of a token admits one key. A document's version
//! never goes back, and an edit that was made on an older one changes nothing. Every statement
//! that says something new has a higher version than all before it.

mod activation;
mod apply;
mod document;
mod entry;
mod judge;
mod member;
mod query;
mod rejected;
mod statement;
#[cfg(test)]
mod tests;
mod token;

use std::collections::BTreeMap;

use muster_gossip::join::TokenId;
use muster_gossip::key::{ClusterId, NodeKey};
use muster_gossip::member::MemberId;
use muster_gossip::record::DocumentId;
use serde::{Deserialize, Serialize};

pub use crate::entry_bytes::{DecodeError, EncodeError};
pub use activation::{Progress, Sight, Soak, steps};
pub use document::{
    BODY_BYTES_MAX, CANARIES_MAX, Canary, DOCUMENTS_MAX, Document, HISTORY_MAX, Passed,
    REASON_BYTES_MAX, Revision, Stage,
};
pub use entry::{Admission, Applied, Edit, Entry, Founder, Init, Name, NewToken, Step};
pub use judge::Judgement;
pub use member::Member;
pub use rejected::Rejected;
pub use statement::{Body, Signer, Statement};
pub use token::{TOKENS_MAX, Token, USES_MAX};

use member::Roll;

/// Members that were ever admitted, at most: numbers are never given twice.
pub const NUMBERS_MAX: usize = 65_536;

/// First byte of every snapshot. A changed layout takes the next number.
const VERSION: u8 = 1;

/// The cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// What its admins call it.
    pub name: Name,
    /// Its id: the hash of the root key.
    pub id: ClusterId,
    /// The root key.
    pub root: NodeKey,
    /// The key that signs for it.
    pub signing: NodeKey,
    /// Raised only by disaster recovery.
    pub generation: u32,
    /// What all members understand; only ever raised.
    pub feature_level: u32,
    /// When it was founded, ms since the epoch.
    pub at_ms: u64,
    /// Index of the entry that changed its record last.
    changed: u64,
}

/// The state of the `cluster` group.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ClusterState {
    cluster: Option<Cluster>,
    /// By number.
    members: Vec<Member>,
    tokens: BTreeMap<TokenId, Token>,
    documents: BTreeMap<DocumentId, Document>,
    #[serde(skip)]
    roll: Roll,
}

/// A snapshot that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// Written by a newer release, or empty.
    #[error("snapshot version {0:?} is not known")]
    Version(Option<u8>),
    /// The bytes are no snapshot.
    #[error("the snapshot cannot be read")]
    Body(#[source] postcard::Error),
}

impl ClusterState {
    /// Number of the member that founded the cluster, and orders its entries until the group has
    /// more voters.
    pub const FOUNDER: MemberId = MemberId(0);

    /// The whole state as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        // Encoding plain data into a Vec cannot fail; an empty snapshot is refused at restore.
        postcard::to_extend(self, vec![VERSION]).unwrap_or_default()
    }

    /// The state that a snapshot holds.
    ///
    /// # Errors
    /// When the bytes are not a snapshot this release can read.
    pub fn restore(snapshot: &[u8]) -> Result<Self, RestoreError> {
        let [VERSION, body @ ..] = snapshot else {
            return Err(RestoreError::Version(snapshot.first().copied()));
        };
        let mut state: Self = postcard::from_bytes(body).map_err(RestoreError::Body)?;
        for (id, member) in (0..).map(MemberId).zip(&state.members) {
            state.roll.add(id, member);
        }
        Ok(state)
    }
}
