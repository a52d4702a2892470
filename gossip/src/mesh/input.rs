//! The words between a [`Mesh`](super) and whoever drives it.

use std::sync::Arc;

use crate::documents;
use crate::frame::{Carrier, MeshFrame};
use crate::key::{ClusterId, NodeKey};
use crate::member::{Incarnation, MemberId};
use crate::record::{Record, SelfHealth};

/// Who this node is in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The key everything the cluster signs goes back to.
    pub root: NodeKey,
    /// This node's number.
    pub member: MemberId,
    /// This start of its agent; higher than every one before.
    pub incarnation: Incarnation,
}

/// How the mesh behaves. The defaults fit any cluster from one node to ten thousand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshOptions {
    /// Between two probes of one watcher, ms.
    pub probe_ms: u64,
    /// An answer is missed after this, or four times the usual round trip, ms.
    pub answer_ms: u64,
    /// Between probes of one that missed an answer, ms.
    pub urgent_ms: u64,
    /// Silence after which a watcher doubts, ms. Longer than any pause of a healthy machine.
    pub doubt_ms: u64,
    /// Silence after which one is gone for its watcher, ms.
    pub gone_ms: u64,
    /// Between probes of one that is gone, ms.
    pub revive_ms: u64,
    /// A push that is not acknowledged is sent again after this, ms; then twice that, and so on.
    pub resend_ms: u64,
    /// An agent is sick whose loops or calls have taken longer than this.
    pub sick: SelfHealth,
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self {
            probe_ms: 1_000,
            answer_ms: 100,
            urgent_ms: 100,
            doubt_ms: 1_150,
            gone_ms: 1_700,
            revive_ms: 200,
            resend_ms: 30,
            // A busy engine may take some seconds, and a driver many to wake its devices; the
            // slowest thing a loop does is a sync.
            sick: SelfHealth {
                loop_age_ms: 5_000,
                engine_age_ms: 15_000,
                device_age_ms: 60_000,
            },
        }
    }
}

/// What happens to a node.
#[derive(Debug)]
pub enum MeshInput {
    /// Nothing but time passed.
    Tick,
    /// A frame of a member, whose key the connection proved.
    Frame {
        /// Whose.
        from: MemberId,
        /// The frame.
        frame: MeshFrame,
    },
    /// A record from outside the mesh: a joining node's admission, the cluster's own edits.
    Record(Arc<Record>),
    /// How this agent feels now.
    Health(SelfHealth),
    /// What this node says of itself from now on. Same content: nothing happens.
    Node(crate::record::NodeBody),
    /// The same where other nodes wait for it: it is told sooner, however often the node has spoken lately.
    News(crate::record::NodeBody),
    /// Of documents: a checked body, one put in force, a body the cluster made here.
    Document(documents::DocumentsInput),
}

/// What a node has to do.
#[derive(Debug)]
pub enum MeshOutput {
    /// Send a frame.
    Send {
        /// To whom.
        to: MemberId,
        /// How.
        carrier: Carrier,
        /// What.
        frame: MeshFrame,
    },
    /// Keep a record on disk: an admission, the cluster's key, a header, an own record.
    Keep(Arc<Record>),
    /// Something that others want to know.
    Event(MeshEvent),
    /// Of documents: bodies to keep, check, put in force.
    Document(documents::DocumentsOutput),
}

/// Something that others want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeshEvent {
    /// Somebody can or cannot be reached as before.
    Reach {
        /// Who.
        member: MemberId,
        /// How now.
        reach: Reach,
    },
    /// The members changed: admit, refuse or disconnect accordingly.
    Members,
    /// Another group holds the cluster state from now on. The driver tells of it once that is on
    /// disk.
    Replacement,
    /// A node says something new of itself (addresses, payload).
    Node(MemberId),
    /// Another machine writes with this node's key.
    Cloned,
    /// This node is a member no more.
    Expelled,
    /// A third of the members became unreachable within a minute.
    MassFailure,
}

/// Whether a member can be reached, as all nodes see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// It answers.
    #[default]
    Alive,
    /// A watcher does not hear it, or it says that it is stuck: place there last.
    Suspect,
    /// Most of its watchers do not hear it: place nothing there.
    Unreachable,
}
