//! Why an event was refused. A refused event changes nothing.

use muster_model::cluster_spec::SpecProblem;

use crate::amount::Resource;
use crate::gang::{GangNumber, Leaf};

/// Why an event was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellsError {
    /// The gang is there already.
    #[error("{0} runs already")]
    Known(GangNumber),
    /// There is no such gang.
    #[error("{0} is not known here")]
    Unknown(GangNumber),
    /// Somebody else has the leaf.
    #[error("leaf {leaf} is held by {holder}")]
    Held {
        /// The leaf.
        leaf: Leaf,
        /// Who has it.
        holder: GangNumber,
    },
    /// The leaf is not promised to the gang's virtual cluster, or named twice, or not there.
    #[error("{gang} may not have leaf {leaf}: it is missing, named twice, or not its cluster's")]
    NotPromised {
        /// The gang.
        gang: GangNumber,
        /// The leaf.
        leaf: Leaf,
    },
    /// A machine has not enough beside leaf cells for the gang's pods on it.
    #[error("{gang} takes {} on {node}, where {free} are left", what.count(*.asked))]
    Machine {
        /// The gang.
        gang: GangNumber,
        /// Of what.
        what: Resource,
        /// What its pods there take.
        asked: u64,
        /// What is left there.
        free: u64,
        /// The machine.
        node: String,
    },
    /// A placement has not one entry per pod, or a pod on two machines.
    #[error("{gang} has {asked} pods, each on one machine; the placement is another")]
    Pods {
        /// The gang.
        gang: GangNumber,
        /// How many pods.
        asked: u64,
    },
    /// Two cells cannot be exchanged.
    #[error("cells {a} and {b} of level {level} cannot be exchanged: {reason}")]
    Swap {
        /// The level.
        level: usize,
        /// One cell.
        a: u32,
        /// The other.
        b: u32,
        /// Why not.
        reason: &'static str,
    },
    /// There is no such machine or device.
    #[error("there is no {0}")]
    NoSuch(String),
    /// The new description of the cluster is wrong.
    #[error("the cluster cannot be described so: {}", list(.0))]
    Spec(Vec<SpecProblem>),
}

fn list(problems: &[SpecProblem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
