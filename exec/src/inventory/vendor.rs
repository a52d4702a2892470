//! What one vendor's driver tells of its devices.

use muster_model::inventory::{Accelerator, InventoryProblem};
use muster_model::node::DeviceLevel;

/// The devices of one vendor, in the order of its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorInventory {
    /// The devices. A card that is partitioned is not listed itself, its partitions are.
    pub devices: Vec<Accelerator>,
    /// Links that only the driver knows: NVLink, NVSwitch, xGMI. Groups name devices by their
    /// place in `devices`.
    pub levels: Vec<DeviceLevel>,
    /// What the driver says is wrong.
    pub problems: Vec<InventoryProblem>,
}
