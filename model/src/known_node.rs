//! The nodes of a cluster, as the leader of a virtual cluster knows them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::node::{Capacity, DeviceLevel, Free};
use crate::vc::Amount;

/// Of a node that an administrator has cordoned or drains: the reason that it is closed, as its leaders know it. By
/// whom and why is said where it is told which members there are.
pub const KEPT_FREE: &str = "an administrator keeps it free";

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownNode {
    /// Its name.
    pub id: NodeId,
    /// What it has; none: it is a member, and the leader has not heard from it yet.
    pub has: Option<Has>,
    /// Why no new tasks are placed there, a sentence part each. Empty where they are.
    pub closed: Vec<String>,
}

/// What a node has, by its newest report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Has {
    /// In amounts.
    pub share: Share,
    /// Every device, faulty ones too.
    pub devices: Vec<KnownDevice>,
    /// Which of them lie near to each other, as far as that is known; the widest level first.
    pub levels: Vec<DeviceLevel>,
    /// For how many milliseconds the leader has heard nothing of the node, counted from its election at
    /// the earliest. A node that has nothing new to say is silent.
    pub silent_ms: u64,
}

/// A device of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KnownDevice {
    /// Its index on the node.
    pub index: u32,
    /// What it is, as its driver names it.
    pub model: String,
    /// Why it is not granted, if so.
    pub fault: Option<String>,
    /// Whether a task has it, as far as it is well.
    pub is_used: bool,
}

/// What a node has in all, what of that is well, and what of that no task has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// With faulty devices.
    pub total: Amount,
    /// Without faulty devices.
    pub healthy: Amount,
    /// Of the healthy.
    pub free: Amount,
}

impl Share {
    /// Of a node.
    pub fn of(capacity: &Capacity, free: &Free) -> Self {
        let count = |devices: usize| u32::try_from(devices).unwrap_or(u32::MAX);
        let healthy = capacity.devices.iter().filter(|it| it.fault.is_none());
        let with = |devices: usize| Amount {
            cpu: capacity.cpu,
            memory_mb: capacity.memory_mb,
            gpu: count(devices),
        };
        Self {
            total: with(capacity.devices.len()),
            healthy: with(healthy.count()),
            free: Amount {
                cpu: free.cpu,
                memory_mb: free.memory_mb,
                gpu: count(free.devices.len()),
            },
        }
    }

    /// What tasks have, of all virtual clusters.
    pub const fn used(self) -> Amount {
        self.healthy.minus(self.free)
    }
}

impl Has {
    /// What a node has that was last heard so long ago.
    pub fn of(capacity: &Capacity, free: &Free, silent_ms: u64) -> Self {
        let devices = capacity.devices.iter().map(|device| KnownDevice {
            index: device.index,
            model: device.model.clone(),
            fault: device.fault.clone(),
            is_used: device.fault.is_none()
                && !free.devices.iter().any(|(index, _)| *index == device.index),
        });
        Self {
            share: Share::of(capacity, free),
            devices: devices.collect(),
            levels: capacity.levels.clone(),
            silent_ms,
        }
    }
}

impl KnownNode {
    /// What new tasks may be given there.
    pub fn available(&self) -> Amount {
        let is_open = self.closed.is_empty();
        let has = self.has.as_ref().filter(|_| is_open);
        has.map_or_else(Amount::default, |has| has.share.free)
    }
}
