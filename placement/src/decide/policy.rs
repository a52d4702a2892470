//! What may be chosen differently from one installation to another.

use super::turns::Turns;

/// How decisions are made. The default is what a laboratory can leave alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionPolicy {
    /// Whether an unused quota cell of another cluster may be exchanged for one on bad hardware:
    /// who needs it first gets it. Else a cluster keeps its own good or bad luck, and only cells
    /// that nobody was promised replace bad ones.
    pub first_come: bool,
    /// Whether a gang may lie in several chains of one leaf type when none holds it alone.
    pub span_chains: bool,
    /// Whether a gang that is larger than its cluster's whole quota is refused; else it waits.
    pub refuse_oversize: bool,
    /// Who comes first and who may pass whom.
    pub turns: Turns,
}

impl Default for DecisionPolicy {
    fn default() -> Self {
        Self {
            first_come: false,
            span_chains: true,
            refuse_oversize: true,
            turns: Turns::default(),
        }
    }
}

impl DecisionPolicy {
    /// As HiveD decides: cells are bound when they are needed, nothing is refused for its size.
    pub const fn hived() -> Self {
        Self {
            first_come: true,
            span_chains: true,
            refuse_oversize: false,
            turns: Turns::backfill(),
        }
    }
}
