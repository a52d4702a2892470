//! What machines send each other: the mesh's frames, parcels between keepers, and questions to whoever
//! leads a group.

use std::sync::Arc;

use muster_consensus::GroupId;
use muster_control::cluster::{self, Briefing};
use muster_control::coordinator::Bindings;
use muster_control::groups::Error;
use muster_control::vc::{Applied, Rejected};
use muster_gossip::frame;
use muster_model::id::{JobKey, NodeId};

/// What machines send each other.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    /// For the mesh's core.
    Mesh(frame::Frame),
    /// For the keeper.
    Parcel(Arc<[u8]>),
    /// A question by this number of who asks.
    Ask(u64, Arc<Question>),
    /// The answer to it.
    Answer(u64, Arc<Answer>),
}

/// A question to whoever leads a group.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(super) group: GroupId,
    pub(super) what: What,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Commit this entry.
    Propose(Arc<[u8]>),
    /// In which term do you lead?
    Term,
    /// Renew the leases of a node.
    Renew(NodeId),
    /// Have you not heard of a node for so many milliseconds?
    Silent(NodeId, u64),
    /// What is new after this version?
    Brief(u64),
    /// What is each virtual cluster bound to, if that is newer than this?
    Bound(u64),
    /// How does a job stand?
    Job(JobKey),
}

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Refused(Error),
    /// What a virtual cluster's state says of an entry.
    Applied(Result<Applied, Rejected>),
    /// What the cluster's state says of an entry.
    Settled(Result<cluster::Applied, cluster::Rejected>),
    /// Generation and term.
    Term(u32, u64),
    Renewed,
    Silent(bool),
    /// None if nothing is new.
    Brief(Option<Briefing>),
    /// None if nothing is new.
    Bound(Option<Bindings>),
    /// Whether there is such a job, and whether it has ended.
    Job(Option<bool>),
}

impl Frame {
    /// Its bytes on the wire but for the mesh's, which counts its own; of what is encoded elsewhere
    /// only about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Mesh(_) => 0,
            Self::Parcel(bytes) => bytes.len() + 16,
            Self::Ask(_, question) => match &question.what {
                What::Propose(entry) => entry.len() + 64,
                _ => 96,
            },
            Self::Answer(_, answer) => match &**answer {
                Answer::Brief(Some(_)) => 4_096,
                _ => 64,
            },
        }
    }
}
