//! Why a gang waits or is refused.

/// Why a gang is refused: it can never start as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such virtual cluster.
    #[error("virtualCluster {0:?} does not exist; name one that does")]
    NoSuchVc(String),
    /// No such priority.
    #[error("priority {0} is out of range; use -1 for opportunistic or 0 to 1000")]
    Priority(i32),
    /// A member that asks for nothing.
    #[error("member {0} asks for no pods or no leaf cells; ask for at least 1 of each")]
    Nothing(usize),
    /// More pods than can be handled.
    #[error("the gang has {0} pods; at most {max} are possible", max = crate::gang::PODS_MAX)]
    Pods(u64),
    /// No such pinned cell.
    #[error("virtual cluster {vc} has no pinned cell {pinned:?}")]
    NoSuchPinnedCell {
        /// The virtual cluster.
        vc: String,
        /// The name asked for.
        pinned: String,
    },
    /// Pinned cells are promises; an opportunistic gang has none.
    #[error("an opportunistic gang cannot ask for pinned cell {0:?}; raise its priority")]
    PinnedOpportunistic(String),
    /// No such leaf type in the cluster, or none promised.
    #[error("no leaf cell of type {leaf_type:?} {whose}")]
    LeafType {
        /// The type asked for.
        leaf_type: String,
        /// Where it was looked for.
        whose: String,
    },
    /// Larger than everything the cluster is promised.
    #[error("the gang needs {asked} leaf cells, but virtual cluster {vc} is promised {promised}")]
    Oversize {
        /// What it asks for.
        asked: u64,
        /// The virtual cluster.
        vc: String,
        /// What that has in one chain.
        promised: u64,
    },
}

/// Why a gang waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Waiting {
    /// The quota is used by gangs that may not be preempted.
    #[error(
        "needs {asked} leaf cells in {pods} pods; {free} of virtual cluster {vc}'s are not in \
         use by its guaranteed gangs, {bad} are on bad or cordoned machines"
    )]
    Quota {
        /// Leaves asked for.
        asked: u64,
        /// Pods asked for.
        pods: u64,
        /// The virtual cluster.
        vc: String,
        /// Leaves of its quota that no guaranteed gang uses.
        free: u32,
        /// Leaves of its quota that cannot be used.
        bad: u32,
    },
    /// Another gang of its cluster waits that nobody may pass.
    #[error("waits behind {0}, which came first")]
    Behind(crate::gang::GangId),
    /// Nothing idle is large enough.
    #[error("needs {asked} idle leaf cells in {pods} pods; {free} are idle")]
    Idle {
        /// Leaves asked for.
        asked: u64,
        /// Pods asked for.
        pods: u64,
        /// Idle leaves of the types asked for.
        free: u32,
    },
}
