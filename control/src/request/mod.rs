//! What agents ask each other. A request is one type: it says what its answer is, and whether it may
//! be sent again. The tables say who answers it.
//!
//! - [`cluster`]: the leader of the `cluster` group.
//! - [`vc`]: the leader of a virtual cluster's group; some of them a copy of its log as well.
//! - [`member`]: that member, whichever groups it leads.
//!
//! [`search`] finds the leader that a request goes to.
//!
//! A new request is a type in one of these files, a line in its table, and an [`Answers`] of each side
//! that is asked by that table: for [`vc`] the leader and a copy, which mostly refuses.
//!
//! On the wire a request is the postcard of its table's enum, so that a table only grows at its end,
//! and an answer is the postcard of `Result<Answer, Failure>`.

pub mod cluster;
mod failure;
mod json;
pub mod member;
pub mod search;
mod table;
pub mod vc;

use std::fmt::Debug;

use muster_gossip::member::MemberId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use failure::{RequestFailure, RequestRefusal};
pub use json::Json;

use cluster::ClusterRequest;
use member::MemberRequest;
use vc::VcRequest;

/// A request of one kind.
pub trait Request: Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What it is answered with, where it is not refused.
    type Answer: Debug + Serialize + DeserializeOwned + Send + 'static;

    /// Whether it may be sent again where it is not known what became of it: twice does no more
    /// than once.
    fn may_repeat(&self) -> bool {
        true
    }

    /// Whether a user sees that it took effect although nobody says so.
    fn changes(&self) -> bool {
        false
    }

    /// Whether the answer may take longer than an election, for it waits for other machines.
    fn is_slow(&self) -> bool {
        false
    }
}

/// A side that answers requests of one kind.
pub trait Answers<R: Request> {
    /// Answers one. `from`: the member that asks.
    ///
    /// # Errors
    /// [`RequestFailure`]; each says what became of the request.
    fn answer(
        &self,
        from: MemberId,
        request: R,
    ) -> impl Future<Output = Result<R::Answer, RequestFailure>> + Send;
}

/// A request with who is to answer it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum AnyRequest {
    /// The leader of the `cluster` group.
    Cluster(ClusterRequest),
    /// The leader of this group, which is a virtual cluster's.
    Vc {
        /// Its number.
        group: u64,
        /// What.
        request: VcRequest,
    },
    /// The copy of this group that the member has.
    Copy {
        /// Its number.
        group: u64,
        /// What.
        request: VcRequest,
    },
    /// The member.
    Member(MemberRequest),
}

impl AnyRequest {
    /// As [`Request::may_repeat`].
    pub fn may_repeat(&self) -> bool {
        match self {
            Self::Cluster(request) => request.may_repeat(),
            Self::Vc { request, .. } => request.may_repeat(),
            Self::Copy { .. } => true,
            Self::Member(request) => request.may_repeat(),
        }
    }

    /// As [`Request::changes`].
    pub fn changes(&self) -> bool {
        match self {
            Self::Vc { request, .. } => request.changes(),
            Self::Cluster(_) | Self::Copy { .. } | Self::Member(_) => false,
        }
    }

    /// As [`Request::is_slow`].
    pub fn is_slow(&self) -> bool {
        match self {
            Self::Cluster(request) => request.is_slow(),
            Self::Vc { request, .. } => request.is_slow(),
            Self::Copy { .. } => false,
            Self::Member(request) => request.is_slow(),
        }
    }

    /// As bytes.
    ///
    /// # Errors
    /// When the encoder fails, which means a bug.
    pub fn encode(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// From bytes.
    ///
    /// # Errors
    /// When the bytes are no request that this release knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(bytes)
    }
}

/// What a copy of a log says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Aged<T> {
    /// What.
    pub value: T,
    /// For how many milliseconds it has not been known to be up to date; none if it never was.
    pub age_ms: Option<u64>,
}

/// An answer as bytes. None where the encoder fails, which means a bug.
pub fn encode_answer<T: Serialize>(answer: &Result<T, RequestFailure>) -> Option<Vec<u8>> {
    postcard::to_stdvec(answer).ok()
}

/// An answer from bytes.
///
/// # Errors
/// When the bytes are no such answer.
pub fn decode_answer<T: DeserializeOwned>(
    bytes: &[u8],
) -> Result<Result<T, RequestFailure>, postcard::Error> {
    postcard::from_bytes(bytes)
}
