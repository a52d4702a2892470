//! Tokens that admit nodes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A token to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// How long it works, in seconds.
    pub expires_s: u64,
    /// How many nodes it admits.
    pub uses: u32,
    /// Whether those nodes may vote in consensus groups.
    pub votes: bool,
}

/// A token as admins see it: never its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenView {
    /// Its id, the first part of its text.
    pub id: String,
    /// Until when it works, milliseconds since the epoch.
    pub expires_ms: u64,
    /// How many nodes it may still admit.
    pub uses_left: u32,
    /// Whether those may vote.
    pub votes: bool,
    /// Who made it.
    pub created_by: String,
    /// Whether it was revoked.
    pub revoked: bool,
}

/// A token that was just made. Its text is shown this once and cannot be had again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreatedToken {
    /// What a joining node is given, with the secret.
    pub text: String,
    /// Where a joining node may turn to: `10.0.0.1:7740`. Empty if unknown.
    pub address: String,
    /// What is kept of it.
    pub token: TokenView,
}

impl std::fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedToken")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl TokenView {
    /// Why it admits nobody any more at `now_ms`, if so.
    pub fn spent(&self, now_ms: u64) -> Option<&'static str> {
        match self {
            Self { revoked: true, .. } => Some("revoked"),
            Self { uses_left: 0, .. } => Some("used up"),
            _ if self.expires_ms <= now_ms => Some("expired"),
            _ => None,
        }
    }
}
