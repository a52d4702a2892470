//! What a leader and a node say to each other. On one machine these are values on a channel;
//! between machines they are the bodies of frames.

use std::sync::Arc;

use muster_model::exit::{Cause, Verdict};
use muster_model::id::{AttemptUid, JobKey, NodeId, TaskId, VcName};
use muster_model::launch::TaskSpec;
use muster_model::node::{Capacity, DeviceId, Free};
use muster_model::view::TaskHold;
use serde::{Deserialize, Serialize};

use crate::environment::Variables;
use crate::fence::{Fence, LedgerEpoch, StartId};
use crate::gang::GangRun;

/// A leader's order to one node about one run of a gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The virtual cluster that orders.
    pub vc: VcName,
    /// Higher than that of every order before.
    pub fence: Fence,
    /// The ledger it is meant for.
    pub epoch: LedgerEpoch,
    /// The agent life it is meant for.
    pub start: StartId,
    /// The run it is about.
    pub run: GangRun,
    /// What to do.
    pub command: GangCommand,
}

/// What an order asks. All are safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GangCommand {
    /// Set resources aside for these tasks, all or none.
    Reserve {
        /// The job, for people.
        job: JobKey,
        /// What each task needs here.
        asks: Vec<ReserveAsk>,
        /// Whether any virtual cluster may have these tasks evicted: they use what is promised to
        /// somebody else, or to nobody.
        evictable: bool,
        /// Tasks of other virtual clusters here that would have to give way at the Launch, as the
        /// plan has it; those that have ended meanwhile do not count.
        victims: Vec<AttemptUid>,
        /// The reservation ends by itself after so many milliseconds without a Launch.
        ttl_ms: u64,
    },
    /// Carry out a committed placement: end whoever has to give way, create the containers, report
    /// ready.
    Launch {
        /// The tasks, every choice made.
        tasks: Vec<TaskSpec>,
        /// The variables that all tasks of the job have. Where a task has one of the same name that one
        /// counts.
        shared: Arc<Variables>,
        /// For those that give way: time between the polite and the hard signal, milliseconds.
        grace_ms: u64,
    },
    /// Start the user's commands.
    Go {
        /// The tasks of this node.
        members: Vec<RunMember>,
    },
    /// End these tasks and give their resources back.
    Stop {
        /// The tasks of this node.
        members: Vec<RunMember>,
        /// Why.
        cause: Cause,
        /// Time between the polite and the hard signal, milliseconds.
        grace_ms: u64,
    },
    /// The exits of these tasks are in the job record; the node may forget them.
    Settle {
        /// The tasks of this node.
        members: Vec<RunMember>,
    },
}

/// A task of a run, on the node it was placed on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunMember {
    /// The task.
    pub task: TaskId,
    /// Its attempt's uid.
    pub uid: AttemptUid,
}

/// What one task is to be given on a node. The plan chose the devices; the node chooses ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveAsk {
    /// The task.
    pub member: RunMember,
    /// Cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Exactly these devices.
    pub devices: Vec<(u32, DeviceId)>,
    /// Which cells of the node these are.
    pub leaves: Vec<u32>,
    /// The epoch of each, where the virtual cluster is bound to them; empty where it is not.
    pub epochs: Vec<u64>,
    /// How many ports of each label.
    pub ports: Vec<(String, u32)>,
}

/// Where a task stands on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskStanding {
    /// Its resources are set aside, or claimed from who would have to give way.
    Reserved,
    /// It holds its resources but has no container; a Launch makes one.
    Absent,
    /// Image, container and checks are under way.
    Starting,
    /// Waits for Go.
    Ready,
    /// The user's commands were started.
    Running,
    /// Is being ended.
    Stopping,
    /// Ended. Kept until settled.
    Ended(Box<Verdict>),
    /// The node holds nothing of it, and never will for this run.
    Gone,
    /// Is being ended by its node: it has to give way to others there.
    Evicted,
    /// Its commands failed, and its container is kept.
    OnHold(Box<TaskHold>),
}

/// What a node says of one order. It says so again, with the same fence, when the standing of
/// a task of the run changes and no newer order for the run came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderAnswer {
    /// The virtual cluster that ordered.
    pub vc: VcName,
    /// The order's fence.
    pub fence: Fence,
    /// The ledger that answers.
    pub epoch: LedgerEpoch,
    /// The agent life that answers.
    pub start: StartId,
    /// The order's run.
    pub run: GangRun,
    /// The outcome.
    pub reply: OrderOutcome,
    /// What is free on the node after this.
    pub free: FreeList,
}

/// Ports of a task by label, in the order the job names the labels.
pub type TaskPorts = Vec<(String, Vec<u16>)>;

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OrderOutcome {
    /// Reserve: all set aside; the chosen ports by label, per task.
    Granted(Vec<(RunMember, TaskPorts)>),
    /// Launch, Go, Stop: where each task stands.
    Standing(Vec<(RunMember, TaskStanding)>),
    /// Settle: forgotten.
    Settled,
    /// Not admitted; nothing was changed.
    Refused(OrderRefusal),
}

/// Why a node did not admit an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum OrderRefusal {
    /// Meant for another ledger or agent life.
    #[error("the order is for another life of the agent")]
    OtherLife,
    /// A higher fence was seen; carries it.
    #[error("an order with a higher fence came before")]
    Fenced(Fence),
    /// This ledger does not know the virtual cluster's term yet.
    #[error("the node has not learnt the virtual cluster's term yet")]
    Unfenced,
    /// There are, or may be, containers that this ledger does not know.
    #[error("the node has not removed yet what its ledger does not know")]
    Unsettled,
    /// Placed or outdated runs are not reserved again.
    #[error("the run was placed already or a newer one is here")]
    Outdated,
    /// A cell was bound again later.
    #[error("cell {leaf} was bound again, in epoch {epoch}")]
    OldCell {
        /// Its address.
        leaf: u32,
        /// The newest epoch that was heard of.
        epoch: u64,
    },
    /// Something asked for is not free; says what.
    #[error("not free: {0}")]
    NotFree(String),
}

/// What is free on a node. Of two lists of one agent life the one with the higher version is
/// newer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeList {
    /// Rises with every change.
    pub version: u64,
    /// What is free.
    pub free: Free,
}

/// What a node tells a leader that asks, and all that it serves when its resources changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// Its agent's life.
    pub start: StartId,
    /// Its ledger.
    pub epoch: LedgerEpoch,
    /// Address that other nodes' tasks reach it at.
    pub address: String,
    /// What it has.
    pub capacity: Capacity,
    /// What is free of it.
    pub free: FreeList,
    /// Why it takes no new tasks, if so.
    pub closed: Option<String>,
    /// Whether containers are on it, or may be, that its ledger does not know.
    pub has_strays: bool,
    /// Every task that it holds something for, of any virtual cluster.
    pub tasks: Vec<HeldTask>,
}

/// A task in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldTask {
    /// The virtual cluster it came from.
    pub vc: VcName,
    /// The run it came with.
    pub run: GangRun,
    /// The task.
    pub member: RunMember,
    /// Where it stands.
    pub standing: TaskStanding,
    /// What it uses; none: it only claims something, or gave everything back.
    pub holding: Option<TaskHolding>,
}

/// What a task uses of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHolding {
    /// The job, for people.
    pub job: JobKey,
    /// The cells of the node, as its leader numbered them.
    pub leaves: Vec<u32>,
    /// The devices among them.
    pub devices: Vec<u32>,
    /// Cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// How many ports.
    pub ports: u32,
    /// Whether any virtual cluster may have it evicted.
    pub evictable: bool,
}

/// What a node tells a leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tell {
    /// To the leader of the answer's virtual cluster.
    Answer(OrderAnswer),
    /// To every leader.
    Report(Box<NodeReport>),
}
