//! Why a request was not carried out.

use muster_gossip::member::MemberId;
use serde::{Deserialize, Serialize};

use crate::cluster::Rejected;
use crate::groups::{self, name};

/// Why a request was not carried out. The three kinds differ in what the asker may do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Failure {
    /// It cannot be done here, or not now. Nothing was done: it may be asked again, or elsewhere.
    #[error("{why}")]
    NotLed {
        /// The member that leads, if another one does.
        leader: Option<MemberId>,
        /// For people.
        why: String,
    },
    /// It is not known whether it was done.
    #[error("{0}")]
    Unknown(String),
    /// It was refused, and nothing was done: the same request is refused again.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// The document has another version than the author saw.
    #[error("somebody else edited it meanwhile: version {current} is the newest")]
    Conflict {
        /// The newest version.
        current: u64,
    },
    /// There is no such thing.
    #[error("{0}")]
    Missing(String),
    /// The reason, which names the remedy.
    #[error("{0}")]
    Invalid(String),
}

impl Failure {
    /// Another member leads.
    pub fn led_by(member: MemberId) -> Self {
        Self::NotLed {
            leader: Some(member),
            why: "another member leads".to_owned(),
        }
    }

    /// Not now.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::NotLed {
            leader: None,
            why: why.into(),
        }
    }

    /// It may have been done.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    /// [`Refusal::Missing`].
    pub fn missing(what: impl Into<String>) -> Self {
        Self::Refused(Refusal::Missing(what.into()))
    }

    /// [`Refusal::Invalid`].
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Refused(Refusal::Invalid(why.into()))
    }
}

impl From<groups::Error> for Failure {
    fn from(error: groups::Error) -> Self {
        let text = error.to_string();
        match error {
            groups::Error::Elsewhere(node) => Self::NotLed {
                leader: name::member(node),
                why: text,
            },
            groups::Error::Unknown(_) | groups::Error::Ended => Self::Unknown(text),
            groups::Error::On(_) => Self::invalid(text),
            _ => Self::unavailable(text),
        }
    }
}

impl From<Rejected> for Failure {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Conflict { current, .. } => Self::Refused(Refusal::Conflict { current }),
            Rejected::NoToken(_)
            | Rejected::NoMember(_)
            | Rejected::NoDocument(_)
            | Rejected::NoVc(_) => Self::missing(rejected.to_string()),
            Rejected::Succession => Self::unavailable(rejected.to_string()),
            _ => Self::invalid(rejected.to_string()),
        }
    }
}
