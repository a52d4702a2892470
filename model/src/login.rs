//! What is known of a client that logs in.

use serde::{Deserialize, Serialize};

/// Whether the client that gives a password was wrong lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginTrust {
    /// Nothing against them.
    #[default]
    Usual,
    /// Passwords from their address were wrong lately: their check must not delay others'.
    Suspect,
}
