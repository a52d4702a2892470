//! What goes into a keeper.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_consensus::{Change, GroupId, GroupView, Home, NodeId, ReplicaId};
use muster_model::cluster_spec::ClusterSpec;
use muster_model::id::{self, VcName};
use muster_model::time::Time;

use super::GENERATION;
use super::error::Error;
use super::machine::{Machine, Outcome};
use super::reports::Reports;
use crate::cluster::{Birth, Lineage};
use crate::coordinator::{Bindings, Coordinator, Cordon, Policy};
use crate::lease::{Hearing, Question};
use crate::order::Tell;

/// Whoever waits for an answer. Called once.
pub type Reply<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// A group as it stands on this node.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Its state.
    pub machine: &'a Machine,
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

impl Seen<'_> {
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

    /// The group that a virtual cluster has by its newest birth.
    pub fn of(birth: &Birth) -> Self {
        Self {
            id: GroupId(birth.group),
            generation: birth.generation,
            before: birth.before.iter().copied().map(GroupId).collect(),
        }
    }
}

/// Looks at a group that this node leads, or is told why it cannot.
pub type Reading = Box<dyn FnOnce(Result<Seen<'_>, Error>) + Send>;

/// What is known here of a group besides its state.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Who has copies, and who leads.
    pub view: GroupView,
    /// Copies that are no more although the group still counts them.
    pub lost: BTreeSet<ReplicaId>,
}

/// All that is known here of a group, as far as it has come here.
#[derive(Debug)]
pub struct Local<'a> {
    /// How it stands here. A leader may have been replaced meanwhile.
    pub seen: Seen<'a>,
    /// Who has copies.
    pub standing: Standing,
}

/// Looks at a group's copy here, whoever leads; none if there is no copy.
pub type Looking = Box<dyn FnOnce(Option<Local<'_>>) + Send>;

/// What happens to a keeper.
pub enum Input {
    /// [`deadline`](super::Keeper::deadline) has passed.
    Tick,
    /// Something that another node's keeper sent.
    Parcel {
        /// Proven by the link.
        from: NodeId,
        /// As [`Output::Send`](super::Output::Send) gave it there.
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
        reply: Reply<Outcome>,
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
        changes: Vec<Change>,
        /// Who waits.
        reply: Reply<()>,
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
    Birth {
        /// Which group.
        group: GroupId,
        /// Who has copies.
        homes: BTreeMap<ReplicaId, Home>,
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
    /// The cluster's affairs are settled by the newest of these groups from now on. It goes on in the same
    /// way.
    Succession(Lineage),
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
        question: Question,
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
    /// How the cluster is described, and in which version; none while that is not known.
    Described(Option<(u64, Arc<ClusterSpec>)>),
    /// What leaders go by from now on.
    Policy(Box<Policy>),
    /// An admin says that a node is off: the tasks of a virtual cluster there have ended.
    Off {
        /// The group of the virtual cluster.
        group: GroupId,
        /// The node.
        node: id::NodeId,
        /// Who waits.
        reply: Reply<()>,
    },
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tick => "Tick",
            Self::Parcel { .. } => "Parcel",
            Self::Written(_) => "Written",
            Self::Refused(_) => "Refused",
            Self::Propose { .. } => "Propose",
            Self::Read { .. } => "Read",
            Self::Look { .. } => "Look",
            Self::Change { .. } => "Change",
            Self::Transfer { .. } => "Transfer",
            Self::HandOver(_) => "HandOver",
            Self::Birth { .. } => "Birth",
            Self::Inherit(_) => "Inherit",
            Self::Tell { .. } => "Tell",
            Self::Joined { .. } => "Joined",
            Self::Succession(_) => "Succession",
            Self::Left => "Left",
            Self::Serve { .. } => "Serve",
            Self::Silence { .. } => "Silence",
            Self::Bound { .. } => "Bound",
            Self::Others { .. } => "Others",
            Self::Cordoned(_) => "Cordoned",
            Self::Described(_) => "Described",
            Self::Policy(_) => "Policy",
            Self::Off { .. } => "Off",
        })
    }
}
