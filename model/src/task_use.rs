//! What a task used over time, as its node keeps it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one attempt of a task used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskUse {
    /// Oldest first: every ten seconds for the last hour, every five minutes for the day before. Empty where the
    /// node keeps nothing of it any more, or nothing yet.
    pub points: Vec<UsePoint>,
}

/// What a task used at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UsePoint {
    /// Milliseconds since the epoch.
    pub at_ms: u64,
    /// Thousandths of a core, on average since the point before.
    pub cpu_milli: u32,
    /// Memory in MiB without what the kernel can drop at once; of several minutes, the most.
    pub memory_mb: u32,
}
