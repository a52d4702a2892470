//! Why a gang waits or is refused.

use std::fmt;

use muster_model::cluster_spec::Level;

use crate::amount::{MachineAmount, Resource};

/// Why a gang is refused: it can never start as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GangRefusal {
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
    /// No machine has so much beside leaf cells.
    #[error(
        "asks for {}, but the largest node has {}: {NEVER}",
        what.count(*.asked), or_none(*.largest)
    )]
    Machine {
        /// Of what.
        what: Resource,
        /// What one pod asks for.
        asked: u64,
        /// The most that one machine has.
        largest: u64,
    },
    /// All machines together have not so much beside leaf cells.
    #[error(
        "asks for {} in all its tasks, but all nodes together have {}: {NEVER}",
        what.count(*.asked), or_none(*.all)
    )]
    Machines {
        /// Of what.
        what: Resource,
        /// What all pods ask for.
        asked: u64,
        /// What all machines have.
        all: u64,
    },
    /// No machine has enough of everything at once.
    #[error(
        "asks for {}, {} and {} on one node, but no node has all of it: {NEVER}",
        Resource::Cpu.count(share.of(Resource::Cpu)),
        Resource::Memory.count(share.of(Resource::Memory)),
        Resource::Ports.count(share.of(Resource::Ports))
    )]
    Together {
        /// What one pod asks for.
        share: MachineAmount,
    },
    /// Larger than everything the cluster is promised.
    #[error("asks for {asked} {what} in all, but virtual cluster {vc} has {}: {NEVER}", or_none(*.promised))]
    Oversize {
        /// What it asks for.
        asked: u64,
        /// What that is.
        what: String,
        /// The virtual cluster.
        vc: String,
        /// What that has in one chain.
        promised: u64,
    },
    /// One pod asks for more than any machine has.
    #[error("asks for {asked} {what} on one node, but the largest node has {largest}: {NEVER}")]
    Node {
        /// What the largest pod asks for.
        asked: u32,
        /// What that is.
        what: String,
        /// What the largest machine has.
        largest: u32,
    },
    /// Nearness by a level that there is not.
    #[error(
        "topology level {level} is asked for, but no cells are of that level there; there are \
         {known}{}", told_by(*level)
    )]
    NoLevel {
        /// The level asked for.
        level: Level,
        /// Those that there are.
        known: String,
    },
    /// More pods in one cell than any has room for.
    #[error(
        "asks for {pods} tasks of {leaves} devices in one cell of level {level}, but the \
         largest has room for {most} even when it is empty: ask for less, or for mode preferred"
    )]
    Near {
        /// The level asked for.
        level: Level,
        /// Pods in one cell.
        pods: u32,
        /// Leaves of each.
        leaves: u32,
        /// Pods that the largest cell has room for.
        most: u32,
    },
}

impl GangRefusal {
    /// What is asked for and what there is, and what follows for who asks if all machines are known. The
    /// second goes on with the sentence, or is empty.
    pub fn parts(&self) -> (String, String) {
        let (text, advice) = (self.to_string(), format!(": {NEVER}"));
        match text.strip_suffix(&advice) {
            Some(fact) => (fact.to_owned(), advice),
            None => (text, String::new()),
        }
    }
}

/// Why a gang waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitReason {
    /// The quota is used by gangs that may not be preempted.
    #[error(
        "needs {asked} leaf cells in {pods} pods; {free} of virtual cluster {vc}'s are not in \
         use by its guaranteed gangs, {bad} are on bad or cordoned machines{}", and(.rack.as_ref())
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
        /// The rack with the most room, if the gang has to lie in one.
        rack: Option<RoomiestRack>,
    },
    /// Its virtual cluster has not all the cells yet that it was promised.
    #[error(
        "virtual cluster {vc} is not bound yet to {leaves} leaf cells that it was promised: they are \
         asked for, and jobs that are on them without a promise give way"
    )]
    Unbound {
        /// The virtual cluster.
        vc: String,
        /// Leaves of it that could be of use.
        leaves: u64,
    },
    /// No machine has enough left beside leaf cells.
    #[error("{}", machine_text(*.room_for, *.pods, *.what, *.asked, (*.most_free, node)))]
    Machine {
        /// Of what.
        what: Resource,
        /// What the pod asks for that finds no place.
        asked: u64,
        /// The most that a machine has left, once the gang's pods before it have theirs.
        most_free: u64,
        /// Which machine that is.
        node: String,
        /// Pods of the gang that find a place.
        room_for: u64,
        /// Pods of the gang that ask for this leaf type.
        pods: u64,
    },
    /// Only gangs of its cluster that may not be evicted yet are in the way.
    #[error(
        "waits for less important gangs of its virtual cluster that may not be evicted before \
         their minimum run time is over"
    )]
    Fixed {
        /// When the last of those that have to go may be evicted.
        until: muster_model::time::Time,
    },
    /// Another gang of its cluster waits that nobody may pass.
    #[error("waits behind {0}, which came first")]
    Behind(crate::gang::GangNumber),
    /// Nothing idle is large enough.
    #[error(
        "needs {asked} idle leaf cells in {pods} pods; {free} are idle{}", and(.rack.as_ref())
    )]
    Idle {
        /// Leaves asked for.
        asked: u64,
        /// Pods asked for.
        pods: u64,
        /// Idle leaves of the types asked for.
        free: u32,
        /// The rack with the most room, if the gang has to lie in one.
        rack: Option<RoomiestRack>,
    },
}

/// The rack with the most room for pods that must lie in one rack, and do not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomiestRack {
    /// Its name, as machines were told.
    pub rack: String,
    /// How many of the pods it has room for.
    pub room_for: u32,
    /// How many there are.
    pub pods: u32,
}

impl fmt::Display for RoomiestRack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rack,
            room_for,
            pods,
        } = self;
        write!(
            f,
            "{pods} tasks of it must be in one rack, and rack {rack}, which has the most room, has it \
             for {room_for}"
        )
    }
}

const NEVER: &str = "it can never start here, ask for less";

/// How machines come to have a level, where an administrator says so.
const fn told_by(level: Level) -> &'static str {
    match level {
        Level::Rack => ". Racks are told by `rack` under [mesh] in agent.toml when a machine joins",
        _ => "",
    }
}

fn and(rack: Option<&RoomiestRack>) -> String {
    rack.map_or_else(String::new, |rack| format!("; {rack}"))
}

fn or_none(number: u64) -> String {
    match number {
        0 => "none".to_owned(),
        number => number.to_string(),
    }
}

/// `has room for 1 of its 2 tasks; the next one needs 4 CPU cores on one node; 1 is free on n1`.
fn machine_text(room_for: u64, pods: u64, what: Resource, asked: u64, most: (u64, &str)) -> String {
    let asked = what.count(asked);
    let free = match most {
        (0, _) => "none is free".to_owned(),
        (1, node) => format!("1 is free on {node}"),
        (number, node) => format!("{number} are free on {node}"),
    };
    match room_for {
        0 => format!("needs {asked} on one node; {free}"),
        _ => format!(
            "has room for {room_for} of its {pods} tasks; the next one needs {asked} on one node; \
             {free}"
        ),
    }
}
