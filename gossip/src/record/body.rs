//! What records say.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::key::{NodeKey, Signature};
use crate::member::{Incarnation, MemberId};

/// Most bytes a node's payload may have.
pub const NODE_PAYLOAD_MAX: usize = 8 << 10;

/// Generation and signing key of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterBody {
    /// The root key, whose hash is the cluster's id.
    pub root: NodeKey,
    /// On every frame. Nothing raises it: a cluster that goes on after a disaster says so by a
    /// [`ReplacementBody`], which takes no root key.
    pub generation: u32,
    /// The key that signs admissions and documents.
    pub signing: NodeKey,
}

/// Most groups that the state of a cluster may have been held by before.
pub const BEFORE_MAX: usize = 256;

/// Which consensus group holds the cluster state from now on. The mesh looks into nothing of
/// it: what groups are is its owner's business.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementBody {
    /// Counts the groups, from 1 for the one that the cluster began with.
    pub generation: u32,
    /// The group's number.
    pub group: u64,
    /// Who has its first copy.
    pub home: MemberId,
    /// In which log store.
    pub store: u64,
    /// The groups of earlier generations, the newest last; at most [`BEFORE_MAX`].
    pub before: Vec<u64>,
}

/// An admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberBody {
    /// The node's key.
    pub key: NodeKey,
    /// The node's name, unique among the members.
    pub name: String,
    /// Where it stands, for spreading what must not fail together; empty if nobody said.
    pub rack: String,
    /// Whether it may vote in consensus groups.
    pub votes: bool,
    /// Whether it is one still.
    pub state: AdmissionState,
}

/// Whether somebody admitted is a member still. What is over never comes back: who joins again
/// gets a new number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdmissionState {
    /// A member.
    Admitted,
    /// It left by itself.
    Left,
    /// An admin expelled it.
    Expelled,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeBody {
    /// Names this life of the process: random, made at each start. Two lives that write at the
    /// same time are two machines with one key.
    pub run: u64,
    /// Where it can be reached (UDP and TCP port of the mesh), best first.
    pub addresses: Vec<SocketAddr>,
    /// Version of its agent.
    pub agent_version: String,
    /// Plain sentences on what is wrong with it; empty when all is well.
    pub problems: Vec<String>,
    /// What agents tell each other besides: bytes that the mesh does not look into.
    pub payload: Vec<u8>,
}

/// Whom a node does not hear of those it watches. Usually empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchBody {
    /// By subject, ascending.
    pub votes: Vec<Vote>,
}

/// What a watcher holds against one it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Whom.
    pub subject: MemberId,
    /// Which life of it: a later one makes the vote void.
    pub incarnation: Incarnation,
    /// How sure.
    pub level: SuspicionLevel,
    /// Whether frames of it still arrive although it does not answer: the way there is cut, the
    /// way back is not.
    pub heard: bool,
}

/// How sure a watcher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SuspicionLevel {
    /// It answers, but says that it is stuck.
    Sick,
    /// No answer for over a second.
    Doubt,
    /// No answer for so long that it is gone for this watcher.
    Gone,
}

/// How an agent feels; in every answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfHealth {
    /// Age of the main loops' oldest beat, in ms.
    pub loop_age_ms: u32,
    /// Age of the oldest call to the container engine that is not answered, in ms; 0 if none.
    pub engine_age_ms: u32,
    /// Age of the oldest call to a device driver that is not answered, in ms; 0 if none.
    pub device_age_ms: u32,
}

impl SelfHealth {
    /// Whether any age is above its limit.
    pub const fn exceeds(&self, limits: &Self) -> bool {
        self.loop_age_ms > limits.loop_age_ms
            || self.engine_age_ms > limits.engine_age_ms
            || self.device_age_ms > limits.device_age_ms
    }
}

/// The newest version of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Counts the edits of this document, from 1. Activation steps of one version keep it.
    pub version: u64,
    /// SHA-256 of the body.
    pub hash: [u8; 32],
    /// Length of the body.
    pub bytes: u64,
    /// SHA-256 of each chunk of 64 KiB, hashed together: checks the chunk list.
    pub chunks: [u8; 32],
    /// How far it has come.
    pub stage: HeaderStage,
    /// The version in force where `stage` does not yet reach; 0 for none.
    pub active: u64,
    /// The body of `active`, for nodes that missed that version; `None` if there is none or it is
    /// this version itself.
    pub active_body: Option<BodyId>,
    /// Who edited it.
    pub author: String,
    /// When, ms since the epoch, by the clock of whoever ordered it.
    pub at_ms: u64,
    /// Whether steps were skipped.
    pub forced: bool,
}

impl Header {
    /// This version's body.
    pub const fn body(&self) -> BodyId {
        BodyId {
            hash: self.hash,
            bytes: self.bytes,
            chunks: self.chunks,
        }
    }
}

/// Identifies a body, and is enough to fetch it and check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyId {
    /// SHA-256 of the body.
    pub hash: [u8; 32],
    /// Length of the body.
    pub bytes: u64,
    /// SHA-256 of each chunk of 64 KiB, hashed together: checks the chunk list.
    pub chunks: [u8; 32],
}

/// Steps of a document's activation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HeaderStage {
    /// All fetch it, check it, and say whether it is valid.
    Distribute,
    /// These put it in force, the others wait.
    Canary(Vec<MemberId>),
    /// All put it in force.
    Active,
    /// It was taken back or found bad: nobody puts it in force.
    Withdrawn,
}

/// Bytes of a signature, as a record carries it.
pub(crate) const SIGNATURE_BYTES: usize = std::mem::size_of::<Signature>();
