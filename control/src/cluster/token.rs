//! Tokens as the cluster keeps them.

use muster_gossip::join::{TokenId, TokenKey};
use serde::{Deserialize, Serialize};

use super::entry::{GivenName, TokenIssue};
use super::rejected::ClusterRejection;

/// Tokens that are good, at most. Those that are over are kept as long as there is room.
pub const TOKENS_MAX: usize = 1_024;
/// Most uses of one token.
pub const USES_MAX: u32 = 65_536;

/// A token. The secret is not among it: the key follows from the secret, not the other way. Who
/// reads the key can make proofs, so the log is kept as the cluster's signing key is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedToken {
    /// What proofs are checked with.
    pub key: TokenKey,
    /// Until when it is good, ms since the epoch.
    pub expires_ms: u64,
    /// How many nodes it admits in all.
    pub uses: u32,
    /// How many it admits still.
    pub uses_left: u32,
    /// Whether those it admits may vote.
    pub votes: bool,
    /// Who made it.
    pub author: GivenName,
    /// When it was made.
    pub created_ms: u64,
    /// When it was revoked.
    pub revoked_ms: Option<u64>,
    /// Index of the entry that made it.
    pub(super) created: u64,
}

impl IssuedToken {
    pub(super) fn new(index: u64, new: &TokenIssue) -> Self {
        Self {
            key: new.key.clone(),
            expires_ms: new.expires_ms,
            uses: new.uses,
            uses_left: new.uses,
            votes: new.votes,
            author: new.author.clone(),
            created_ms: new.at_ms,
            revoked_ms: None,
            created: index,
        }
    }

    /// Whether it admits anybody at this time.
    ///
    /// # Errors
    /// Why not.
    pub fn good(&self, id: TokenId, at_ms: u64) -> Result<(), ClusterRejection> {
        if self.revoked_ms.is_some() {
            Err(ClusterRejection::Revoked(id))
        } else if at_ms >= self.expires_ms {
            Err(ClusterRejection::Expired(id))
        } else if self.uses_left == 0 {
            Err(ClusterRejection::UsedUp(id))
        } else {
            Ok(())
        }
    }
}
