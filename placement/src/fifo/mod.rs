//! Strictly in turn, the first node that fits: what stands in until the agent places by cells.

mod cells;
mod explain;
mod plan;
mod queue;

pub use cells::{Cells, Holder, Node, Size};
pub use plan::{Decision, Plan, Slot, plan};
pub use queue::{Gang, Group, Need, Queue};
