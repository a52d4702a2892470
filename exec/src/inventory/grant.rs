//! What of a machine tasks can get.

use std::collections::BTreeMap;

use muster_model::node::{Device, DeviceId, DeviceLevel, NVIDIA};

use super::vendor::{DeviceAccess, DeviceListing, FoundDevice};
use super::{Devices, levels};

/// The devices that are granted, faulty ones too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedDevices {
    /// In the order of their indices. NVIDIA's GPUs have the driver's numbers; where a card is in
    /// MIG mode, indices count its instances in its place, and are not the driver's.
    pub devices: Vec<Device>,
    /// Which of them lie near to each other, by index.
    pub levels: Vec<DeviceLevel>,
}

impl GrantedDevices {
    pub(super) fn of(found: &Devices) -> Self {
        let accessible = (0..).zip(&found.devices).filter_map(|(place, device)| {
            let access = device.access.as_ref()?;
            Some((place, device, access))
        });
        let mut accessible: Vec<(u32, _, _)> = accessible.collect();
        accessible.sort_by_key(|(_, device, _)| device.accelerator.vendor != NVIDIA);
        let mut index_of = BTreeMap::new();
        let mut devices = Vec::new();
        for (index, (place, device, access)) in (0..).zip(accessible) {
            // One that a rule leaves out keeps its number, so that others have the driver's.
            if device.listing != DeviceListing::LeftOut {
                index_of.insert(place, index);
                devices.push(granted(index, device, access));
            }
        }
        let levels = levels::renumbered(&found.levels, &index_of);
        Self { devices, levels }
    }
}

fn granted(index: u32, device: &FoundDevice, access: &DeviceAccess) -> Device {
    let device = device.accelerator.clone();
    Device {
        id: DeviceId(access.id.clone()),
        index,
        kind: device.kind,
        vendor: device.vendor,
        model: device.model,
        memory_mb: device.memory_mb,
        pci: device.pci,
        partition_of: device.partition_of,
        paths: access.paths.clone(),
        fault: access.fault.clone(),
        simulated: false,
    }
}
