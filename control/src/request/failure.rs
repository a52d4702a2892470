//! Why a request was not carried out.

use muster_gossip::member::MemberId;
use serde::{Deserialize, Serialize};

use crate::cluster::ClusterRejection;
use crate::groups::{self, name};

/// Why a request was not carried out. The three kinds differ in what the asker may do next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RequestFailure {
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
    Refused(#[from] RequestRefusal),
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum RequestRefusal {
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

impl RequestFailure {
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

    /// [`RequestRefusal::Missing`].
    pub fn missing(what: impl Into<String>) -> Self {
        Self::Refused(RequestRefusal::Missing(what.into()))
    }

    /// [`RequestRefusal::Invalid`].
    pub fn invalid(why: impl Into<String>) -> Self {
        Self::Refused(RequestRefusal::Invalid(why.into()))
    }
}

impl From<groups::GroupError> for RequestFailure {
    fn from(error: groups::GroupError) -> Self {
        let text = error.to_string();
        match error {
            groups::GroupError::Elsewhere(node) => Self::NotLed {
                leader: name::member(node),
                why: text,
            },
            groups::GroupError::Unknown(_) | groups::GroupError::Ended => Self::Unknown(text),
            groups::GroupError::On(_) => Self::invalid(text),
            _ => Self::unavailable(text),
        }
    }
}

impl From<ClusterRejection> for RequestFailure {
    fn from(rejected: ClusterRejection) -> Self {
        match rejected {
            ClusterRejection::Conflict { current, .. } => {
                Self::Refused(RequestRefusal::Conflict { current })
            }
            ClusterRejection::NoToken(_)
            | ClusterRejection::NoMember(_)
            | ClusterRejection::NoDocument(_)
            | ClusterRejection::NoVc(_) => Self::missing(rejected.to_string()),
            ClusterRejection::Replacement => Self::unavailable(rejected.to_string()),
            _ => Self::invalid(rejected.to_string()),
        }
    }
}
