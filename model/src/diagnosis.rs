//! What a thorough look at a machine finds, which takes minutes and must have the machine for itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::health::HealthState;

/// What one test found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Which test: `pci-link`, `dcgmi`.
    pub test: String,
    /// The part of the machine: a PCI address, `gpus`, `machine`.
    pub part: String,
    /// What it says of the part; unknown if it could not be run.
    pub state: HealthState,
    /// What was seen, or why nothing was.
    pub evidence: String,
    /// How long it took, milliseconds.
    pub took_ms: u64,
}
