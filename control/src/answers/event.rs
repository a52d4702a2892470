//! What people may want to know of the cluster state.

use std::collections::BTreeSet;

use muster_gossip::member::MemberId;
use muster_gossip::record::{DocumentId, RecordKey};
use muster_model::id::VcName;
use muster_model::mesh::Scheduling;

use crate::cluster::ClusterApplied;
use crate::request::RequestFailure;

/// Something that people may want to know.
#[derive(Clone, Debug)]
pub enum Event {
    /// A document took a step.
    Stepped(ClusterApplied),
    /// It could not.
    NotStepped(RequestFailure),
    /// A member left.
    Left(MemberId),
    /// A member was expelled.
    Expelled {
        /// Its name.
        name: String,
        /// The user who said so.
        by: String,
    },
    /// An admin said whether jobs may come to a member.
    Scheduled {
        /// Its name.
        name: String,
        /// What holds.
        scheduling: Scheduling,
        /// Why.
        reason: String,
        /// The user who said so.
        by: String,
    },
    /// A virtual cluster goes on without most of its voters.
    Recovered {
        /// Which.
        vc: String,
        /// In which generation.
        generation: u32,
        /// From whose copy.
        from: String,
        /// The voters that are lost.
        lost: BTreeSet<String>,
        /// The user who said so.
        by: String,
    },
    /// The cluster goes on without most of its voters.
    Succeeds {
        /// In which generation.
        generation: u32,
        /// The user who said so.
        by: String,
    },
    /// The cluster state has a leader again.
    Settled {
        /// In which generation.
        generation: u32,
    },
    /// They are not yet.
    Unsettled(RequestFailure),
    /// No machine reports which cells these have: the last known state holds.
    Unheard(BTreeSet<VcName>),
    /// They are waited for still.
    StillUnheard(RequestFailure),
    /// A voter does not keep a body.
    NotKept(RequestFailure),
    /// A body is missing here, by its hash.
    BodyMissing {
        /// Which, in hex.
        hash: String,
        /// Why it was not had from elsewhere.
        why: RequestFailure,
    },
    /// The newest body of a document is nowhere.
    BodyNowhere {
        /// Which document, if it is known.
        document: Option<DocumentId>,
        /// Why it was not had.
        why: Option<RequestFailure>,
    },
    /// An entry cannot be written, which means a bug.
    Unwritable(String),
    /// A record cannot be signed, which means a bug.
    Unsigned {
        /// Which.
        key: RecordKey,
        /// Why.
        why: String,
    },
    /// A token cannot be made.
    NoToken(String),
}
