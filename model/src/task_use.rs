//! What a task used over time, as its node keeps it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one attempt of a task used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskUse {
    /// Oldest first: every ten seconds for the last hour, every five minutes for the day before. Empty where the
    /// node keeps nothing of it any more, or nothing yet.
    pub points: Vec<UsePoint>,
    /// How busy its devices were while it held them, those that the node samples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
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

/// How busy a device was while a task held it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceUse {
    /// Its index on the node.
    pub index: u32,
    /// Oldest first, at the times of [`TaskUse::points`] by and large.
    pub points: Vec<DevicePoint>,
}

/// How busy a device was at a time. A figure that the device does not have is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DevicePoint {
    /// Milliseconds since the epoch.
    pub at_ms: u64,
    /// Percent of time in which it was busy; of several minutes, the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub utilization: Option<u8>,
    /// Memory that is used, MiB; of several minutes, the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
    /// Power that it draws, W; of several minutes, the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<u16>,
    /// Degrees Celsius; of several minutes, the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<u8>,
}
