//! What a reader tells of devices, and how tasks get them.

use std::path::Path;

use muster_model::inventory::{Accelerator, InventoryProblem};
use muster_model::node::DeviceLevel;

/// The devices of one vendor, in the order of its driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VendorInventory {
    /// The devices. A card that is partitioned is not listed itself, its partitions are.
    pub devices: Vec<FoundDevice>,
    /// Links that only the driver knows: NVLink, NVSwitch, xGMI. Groups name devices by their
    /// place in `devices`.
    pub levels: Vec<DeviceLevel>,
    /// What the driver says is wrong.
    pub problems: Vec<InventoryProblem>,
}

/// A device that a reader found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDevice {
    /// What it is.
    pub accelerator: Accelerator,
    /// How tasks get it. None: that is not known, and it is not granted.
    pub access: Option<DeviceAccess>,
    /// Whether the machine's list has it.
    pub listing: DeviceListing,
}

/// Whether the list of what a machine has shows a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceListing {
    /// It does.
    Listed,
    /// The driver counts the device and does not answer for it. It has a number, and the bus
    /// tells what it is.
    Counted,
    /// A rule says that it is none for computing.
    LeftOut,
}

/// How tasks get a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Its lasting name.
    pub id: String,
    /// The device files that a task needs, as paths from `/`.
    pub paths: Vec<String>,
    /// Why no task can use it, as a sentence's end for people.
    pub fault: Option<String>,
}

impl FoundDevice {
    /// A device that is listed.
    pub fn listed(accelerator: Accelerator, access: Option<DeviceAccess>) -> Self {
        Self {
            accelerator,
            access,
            listing: DeviceListing::Listed,
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listing == DeviceListing::Listed
    }
}

impl DeviceAccess {
    /// Access by these files of the machine whose file tree is at `root`. One that is missing is
    /// a fault.
    pub(super) fn by_files(root: &Path, id: String, paths: Vec<String>) -> Self {
        let mut missing = paths.iter().filter(|path| !is_there(root, path));
        let fault = missing.next().map(|path| format!("{path} does not exist"));
        Self { id, paths, fault }
    }
}

/// Whether a device file exists. A tree without `dev` tells nothing, and then it does.
pub(super) fn is_there(root: &Path, path: &str) -> bool {
    !root.join("dev/null").exists() || root.join(path.trim_start_matches('/')).exists()
}
