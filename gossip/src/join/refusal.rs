//! Why somebody is not admitted.

use serde::{Deserialize, Serialize};

/// Why somebody is not admitted. Travels as a number; one that a later release sends is read as
/// [`JoinRefusal::Unknown`].
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    thiserror::Error,
    Serialize,
    Deserialize,
)]
#[serde(from = "u16", into = "u16")]
pub enum JoinRefusal {
    /// The proof does not hold.
    #[error("the token's secret is wrong; copy the token again")]
    WrongSecret,
    /// The cluster has no such token.
    #[error("the cluster does not know this token; ask its admin for a new one")]
    UnknownToken,
    /// Its time is over.
    #[error("the token has expired; ask the cluster's admin for a new one")]
    Expired,
    /// It was used as often as it may be.
    #[error("the token is used up; ask the cluster's admin for a new one")]
    UsedUp,
    /// An admin took it back.
    #[error("the token was revoked; ask the cluster's admin for a new one")]
    Revoked,
    /// A member has that name.
    #[error("another member has this node's name; set another one in the configuration")]
    NameTaken,
    /// The key is a member's already, by another token or under another name.
    #[error(
        "this node's key is a member already, under another name, rack or token; have that member \
         expelled first, or remove the key if the machine is a copy of it"
    )]
    KeyAdmitted,
    /// The key was expelled after the token was made.
    #[error("this node was expelled; ask the cluster's admin for a token made after that")]
    Expelled,
    /// Too many attempts at once, or too many wrong ones.
    #[error("the node is busy with other attempts to join; try again later")]
    Busy,
    /// Who admits cannot be reached from the asked node.
    #[error("the asked node cannot reach the node that admits members; try again, or ask another")]
    Unavailable,
    /// A message of a form that the asked node does not know.
    #[error("the asked node does not understand this release; install the cluster's release")]
    Unsupported,
    /// The cluster uses features that the joiner does not know.
    #[error("the cluster uses features of a newer release; upgrade this node first")]
    Outdated,
    /// No message at all, or one that names somebody else than its connection.
    #[error("the asked node could not read the message")]
    Malformed,
    /// The cluster has as many members as it can have.
    #[error("the cluster is full")]
    Full,
    /// No challenge is open for this proof: it came late, or again.
    #[error("the challenge is over; try again")]
    Late,
    /// A reason of a later release.
    #[error("refused for reason {0}, which this release does not know; upgrade this node")]
    Unknown(u16),
}

impl JoinRefusal {
    /// All with their numbers on the wire, none of which is ever used again.
    const CODES: [(u16, Self); 15] = [
        (1, Self::WrongSecret),
        (2, Self::UnknownToken),
        (3, Self::Expired),
        (4, Self::UsedUp),
        (5, Self::Revoked),
        (6, Self::NameTaken),
        (7, Self::KeyAdmitted),
        (8, Self::Expelled),
        (9, Self::Busy),
        (10, Self::Unavailable),
        (11, Self::Unsupported),
        (12, Self::Outdated),
        (13, Self::Malformed),
        (14, Self::Full),
        (15, Self::Late),
    ];

    /// Whether the same attempt may succeed a little later.
    pub const fn passes(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable | Self::Late)
    }
}

impl From<u16> for JoinRefusal {
    fn from(code: u16) -> Self {
        let known = Self::CODES.iter().find(|(known, _)| *known == code);
        known.map_or(Self::Unknown(code), |(_, refusal)| *refusal)
    }
}

impl From<JoinRefusal> for u16 {
    fn from(refusal: JoinRefusal) -> Self {
        if let JoinRefusal::Unknown(code) = refusal {
            return code;
        }
        let known = JoinRefusal::CODES
            .iter()
            .find(|(_, known)| *known == refusal);
        known.map_or(0, |(code, _)| *code)
    }
}
