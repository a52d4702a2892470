//! Images on their way to a machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An image that a machine gets for its tasks, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pull {
    /// The image, as the job names it.
    pub image: String,
    /// Bytes that have arrived.
    pub bytes: u64,
    /// In all, once the registry has said so.
    pub bytes_total: Option<u64>,
    /// Layers that are unpacked.
    pub layers: u32,
    /// In all; 0 while bytes arrive.
    pub layers_total: u32,
    /// For how many milliseconds it is on its way.
    pub for_ms: u64,
}
