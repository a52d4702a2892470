//! What can happen to cells.

use std::collections::BTreeMap;

use muster_model::cluster_spec::ClusterSpec;

use super::Owners;
use crate::gang::{Gang, GangNumber, Grant, MachineAmount, Placement, Swap};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum CellEvent {
    /// A gang was placed; if it was preempting before, it is no longer.
    Started {
        /// The gang.
        gang: Gang,
        /// Where, and what that changes.
        grant: Grant,
    },
    /// A gang waits for its victims to go; its cells are its own from now on.
    Preempting {
        /// The gang.
        gang: Gang,
        /// Where it will go.
        grant: Grant,
    },
    /// A preempting gang gave up; its victims have their cells back.
    PreemptionCancelled(GangNumber),
    /// Gangs lost their quota and go on as opportunistic: lazily preempted.
    Demoted(Vec<GangNumber>),
    /// A pod ended, the gang's cells are kept until its last pod did.
    PodEnded {
        /// The gang.
        gang: GangNumber,
        /// The pod, counted in the order of the members.
        pod: u32,
    },
    /// A pod of the gang runs again on the leaves of one that ended.
    PodRestarted {
        /// The gang.
        gang: GangNumber,
        /// The pod, counted in the order of the members.
        pod: u32,
    },
    /// A pod ended and gave its cells and its share of the machine back, while the rest of the
    /// gang goes on. The last one ends the gang.
    PodReleased {
        /// The gang.
        gang: GangNumber,
        /// The pod, counted in the order of the members.
        pod: u32,
    },
    /// A gang was found running when the cells were made. It is guaranteed if unused quota cells
    /// of its cluster can be exchanged onto its leaves, else opportunistic. Bad and cordoned
    /// leaves are fine; devices that the cells don't know are left out.
    Adopted {
        /// The gang.
        gang: Gang,
        /// Where it is, one entry per pod.
        placement: Placement,
    },
    /// A gang ended.
    GangEnded(GangNumber),
    /// A machine has so much beside leaf cells. One that never said so has it without limit.
    Capacity {
        /// The machine.
        node: String,
        /// All of it, in use or not.
        amount: MachineAmount,
    },
    /// The machines stand in these racks from now on, by their names; all others are each in a rack of its own.
    Racks(BTreeMap<String, String>),
    /// A machine failed or came back.
    NodeHealth {
        /// The machine.
        node: String,
        /// Whether it is healthy now.
        healthy: bool,
    },
    /// A device failed or came back.
    DeviceHealth {
        /// The machine.
        node: String,
        /// The device's index.
        device: u32,
        /// Whether it is healthy now.
        healthy: bool,
    },
    /// Nothing new starts on a machine from now on, or something may again.
    Cordon {
        /// The machine.
        node: String,
        /// Whether it is cordoned now.
        on: bool,
    },
    /// Two cells exchanged what they are promised to.
    Swapped(Swap),
    /// Somebody else says from now on who has which leaves of a cluster that is described so; none: each
    /// planner binds by itself again.
    Owned(Box<ClusterSpec>, Option<Owners>),
    /// The cluster is described anew. Nothing that runs is lost: what no longer fits its quota
    /// goes on as opportunistic.
    Reconfigured(Box<ClusterSpec>),
}
