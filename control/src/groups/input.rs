//! What goes into a group host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_consensus::{GroupId, GroupView, NodeId, ReplicaChange, ReplicaHome, ReplicaId};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{self, VcName};
use muster_model::time::Time;

use super::GENERATION;
use super::error::GroupError;
use super::machine::{ApplyOutcome, GroupState};
use super::reports::Reports;
use crate::cluster::{Lineage, VcCreation};
use crate::coordinator::{Bindings, Coordinator, Cordon, LeaderPolicy};
use crate::lease::{Hearing, SilenceQuestion};
use crate::order::Tell;

/// Whoever waits for an answer. Called once.
pub type GroupReply<T> = Box<dyn FnOnce(Result<T, GroupError>) + Send>;

/// A group as it stands on this node.
#[derive(Debug)]
pub struct LocalGroup<'a> {
    /// Its state.
    pub machine: &'a GroupState,
    /// The coordinator that leads it from here, if it is a virtual cluster of this node.
    pub coordinator: Option<&'a Coordinator>,
    /// Whom the leader has heard: of the `cluster` group, who asked for renewal; of a virtual cluster,
    /// who said anything.
    pub hearing: Option<(&'a Hearing, Time)>,
    /// Which members have reported to the leader, if it is a virtual cluster of this node.
    pub reports: Option<Reports<'a>>,
    /// The version of the description that coordinators go by, once it is known.
    pub description: Option<u64>,
    /// The last entry that the state has taken.
    pub applied: u64,
    /// The term that it is led in from here, if it is.
    pub term: Option<u64>,
    /// The time of day.
    pub wall: Time,
}

impl LocalGroup<'_> {
    /// For how many milliseconds nothing of the kind was heard of the node, counted from the leader's
    /// election at the earliest.
    pub fn silence_ms(&self, node: &id::NodeId) -> u64 {
        self.hearing
            .map_or(0, |(hearing, now)| hearing.silence_ms(now, node))
    }
}

/// The group that a virtual cluster has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VcGroup {
    /// Which.
    pub id: GroupId,
    /// Raised with every new group.
    pub generation: u32,
    /// Those that it had before.
    pub before: Vec<GroupId>,
}

impl VcGroup {
    /// The group that a virtual cluster begins with.
    pub const fn first(id: GroupId) -> Self {
        Self {
            id,
            generation: GENERATION,
            before: Vec::new(),
        }
    }

    /// The group that a virtual cluster has by its newest creation.
    pub fn of(creation: &VcCreation) -> Self {
        Self {
            id: GroupId(creation.group),
            generation: creation.generation,
            before: creation.before.iter().copied().map(GroupId).collect(),
        }
    }
}

/// Looks at a group that this node leads, or is told why it cannot.
pub type Reading = Box<dyn FnOnce(Result<LocalGroup<'_>, GroupError>) + Send>;

/// What is known here of a group besides its state.
#[derive(Clone, Debug)]
pub struct GroupStanding {
    /// Who has copies, and who leads.
    pub view: GroupView,
    /// Copies that are no more although the group still counts them.
    pub lost: BTreeSet<ReplicaId>,
}

/// All that is known here of a group, as far as it has come here.
#[derive(Debug)]
pub struct Local<'a> {
    /// How it stands here. A leader may have been replaced meanwhile.
    pub seen: LocalGroup<'a>,
    /// Who has copies.
    pub standing: GroupStanding,
}

/// Looks at a group's copy here, whoever leads; none if there is no copy.
pub type Looking = Box<dyn FnOnce(Option<Local<'_>>) + Send>;

/// What happens to a group host.
pub enum GroupHostInput {
    /// [`deadline`](super::GroupHost::deadline) has passed.
    Tick,
    /// Something that another node's group host sent.
    Envelope {
        /// Proven by the link.
        from: NodeId,
        /// As [`Output::Send`](super::GroupHostOutput::Send) gave it there.
        bytes: Vec<u8>,
    },
    /// The write of this number is durable.
    Written(u64),
    /// The disk refuses the write for this reason. It is offered again.
    Refused(String),
    /// An entry for a group that is led here.
    Propose {
        /// Which group.
        group: GroupId,
        /// The entry.
        entry: Vec<u8>,
        /// Who waits.
        reply: GroupReply<ApplyOutcome>,
    },
    /// Look at a group that is led here, as new as it is anywhere.
    Read {
        /// Which group.
        group: GroupId,
        /// The node that asks for renewal of its leases by it, if one does.
        heard: Option<id::NodeId>,
        /// How.
        reading: Reading,
    },
    /// Look at a group's copy here, as it is.
    Look {
        /// Which group.
        group: GroupId,
        /// How.
        looking: Looking,
    },
    /// Change who has copies of a group that is led here.
    Change {
        /// Which group.
        group: GroupId,
        /// In this order, all at once.
        changes: Vec<ReplicaChange>,
        /// Who waits.
        reply: GroupReply<()>,
    },
    /// Hand the lead of a group over.
    Transfer {
        /// Which group.
        group: GroupId,
        /// To whom.
        to: ReplicaId,
    },
    /// This node is about to end: hand over all leads that others can take, and say which.
    HandOver(Box<dyn FnOnce(Vec<GroupId>) + Send>),
    /// A group is born, with these first copies.
    Creation {
        /// Which group.
        group: GroupId,
        /// Who has copies.
        homes: BTreeMap<ReplicaId, ReplicaHome>,
    },
    /// A virtual cluster that is recovered goes on in its newest group from the newest copy here of those
    /// that it had, if this node is the home of that.
    Inherit(Lineage),
    /// This node tells the leader of a virtual cluster something.
    Tell {
        /// The leader.
        to: NodeId,
        /// Of which virtual cluster.
        vc: VcName,
        /// The node, by its name.
        node: id::NodeId,
        /// What.
        tell: Box<Tell>,
    },
    /// This node is a member.
    Joined {
        /// Its number.
        node: NodeId,
        /// The cluster's group: the one that may give this node a copy.
        cluster: GroupId,
    },
    /// The cluster state is held by the newest of these groups from now on. It goes on in the same
    /// way.
    Replacement(Lineage),
    /// It is one no more: its copies of the cluster's groups end. Nobody else has to have them.
    Left,
    /// It serves these virtual clusters of its cluster, and no other.
    Serve {
        /// The groups, by name.
        vcs: BTreeMap<VcName, VcGroup>,
    },
    /// What the leader of the `cluster` group said of a silent node, if it said anything.
    Silence {
        /// The group of the virtual cluster that asked.
        group: GroupId,
        /// What it asked.
        question: SilenceQuestion,
        /// Whether it is silent there too.
        silent: Option<bool>,
    },
    /// What the leader of the `cluster` group said of who is bound to what.
    Bound {
        /// The group of the virtual cluster that asked.
        group: GroupId,
        /// All of it, if it is newer than what was known.
        news: Option<Bindings>,
    },
    /// Who else there is.
    Others {
        /// The other members, and which of them can be reached.
        members: BTreeMap<NodeId, bool>,
        /// The names of all members.
        names: BTreeMap<id::NodeId, NodeId>,
        /// The cluster's group, and how many voters it has as far as was heard.
        cluster: (GroupId, usize),
    },
    /// Which nodes admins keep jobs off.
    Cordoned(BTreeMap<id::NodeId, Cordon>),
    /// In which racks nodes stand. All others are each in a rack of its own.
    Racks(BTreeMap<id::NodeId, String>),
    /// How the cluster is described, and in which version; none while that is not known.
    Described(Option<(u64, Arc<ClusterSpec>)>),
    /// What leaders go by from now on.
    Policy(Box<LeaderPolicy>),
    /// An admin says that a node is off: the tasks of a virtual cluster there have ended.
    Off {
        /// The group of the virtual cluster.
        group: GroupId,
        /// The node.
        node: id::NodeId,
        /// Who waits.
        reply: GroupReply<()>,
    },
}

impl std::fmt::Debug for GroupHostInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tick => "Tick",
            Self::Envelope { .. } => "Envelope",
            Self::Written(_) => "Written",
            Self::Refused(_) => "Refused",
            Self::Propose { .. } => "Propose",
            Self::Read { .. } => "Read",
            Self::Look { .. } => "Look",
            Self::Change { .. } => "Change",
            Self::Transfer { .. } => "Transfer",
            Self::HandOver(_) => "HandOver",
            Self::Creation { .. } => "Creation",
            Self::Inherit(_) => "Inherit",
            Self::Tell { .. } => "Tell",
            Self::Joined { .. } => "Joined",
            Self::Replacement(_) => "Replacement",
            Self::Left => "Left",
            Self::Serve { .. } => "Serve",
            Self::Silence { .. } => "Silence",
            Self::Bound { .. } => "Bound",
            Self::Others { .. } => "Others",
            Self::Cordoned(_) => "Cordoned",
            Self::Racks(_) => "Racks",
            Self::Described(_) => "Described",
            Self::Policy(_) => "Policy",
            Self::Off { .. } => "Off",
        })
    }
}
