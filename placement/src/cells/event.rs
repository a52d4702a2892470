//! What can happen to cells.

use muster_model::cluster_spec::ClusterSpec;

use crate::gang::{Gang, GangId, Grant, Swap};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
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
    PreemptionCancelled(GangId),
    /// Gangs lost their quota and go on as opportunistic: lazily preempted.
    Demoted(Vec<GangId>),
    /// A pod ended, the gang's cells are kept until its last pod did.
    PodEnded {
        /// The gang.
        gang: GangId,
        /// The pod, counted in the order of the members.
        pod: u32,
    },
    /// A pod of the gang runs again on the leaves of one that ended.
    PodRestarted {
        /// The gang.
        gang: GangId,
        /// The pod, counted in the order of the members.
        pod: u32,
    },
    /// A gang ended.
    GangEnded(GangId),
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
    /// The cluster is described anew. Nothing that runs is lost: what no longer fits its quota
    /// goes on as opportunistic.
    Reconfigured(Box<ClusterSpec>),
}
