//! Which devices lie near each other, by what the kernel says of their places on the PCI bus.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Component, Path};

use muster_model::cluster_spec::Level;
use muster_model::node::{Device, DeviceLevel};

const PCI_DEVICES: &str = "sys/bus/pci/devices";
const MEMORY_NODES: &str = "sys/devices/system/node";

/// A device's address on the bus, of its first function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BusId {
    pub(super) domain: u32,
    pub(super) bus: u32,
    pub(super) device: u32,
}

impl fmt::Display for BusId {
    /// As the kernel writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            domain,
            bus,
            device,
        } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.0")
    }
}

/// A device with its address, if the driver says it.
pub(super) type Located = (Device, Option<BusId>);

/// Where a device stands.
#[derive(Clone, Debug, Default)]
struct DeviceLocation {
    /// The memory that is nearest.
    numa: Option<u32>,
    /// The bridges above it, outermost first, and itself.
    bridges: Vec<String>,
}

/// The levels of a machine, the widest first. What is not known of all devices of one model, or
/// what divides them unevenly, is left out for them. `linked` are the indices that NVLink links.
pub(super) fn levels(root: &Path, devices: &[Located], linked: &[Vec<u32>]) -> Vec<DeviceLevel> {
    let only_node = only_memory_node(root);
    let mut models: BTreeMap<&str, Vec<(u32, DeviceLocation)>> = BTreeMap::new();
    for (device, bus) in devices {
        let place = bus.map_or_else(DeviceLocation::default, |bus| place(root, bus, only_node));
        let of_model = models.entry(&device.model).or_default();
        of_model.push((device.index, place));
    }
    let numa = models.values().map(|of_model| numa(of_model));
    let pcie = models.values().map(|of_model| pcie(of_model));
    let nvlink = models.values().map(|of_model| nvlink(of_model, linked));
    let mut all: [(Level, Vec<Vec<u32>>); 3] = [
        (Level::Numa, numa.flatten().flatten().collect()),
        (Level::Nvlink, nvlink.flatten().flatten().collect()),
        (Level::Pcie, pcie.flatten().flatten().collect()),
    ];
    // NVLink may link what one switch has, and all that a machine has.
    let width = |groups: &[Vec<u32>]| groups.iter().map(Vec::len).max();
    all.sort_by_key(|(_, groups)| Reverse(width(groups)));
    known(all)
}

/// Those levels that have groups.
pub(super) fn known(levels: impl IntoIterator<Item = (Level, Vec<Vec<u32>>)>) -> Vec<DeviceLevel> {
    let levels = levels.into_iter().filter(|(_, groups)| !groups.is_empty());
    levels
        .map(|(level, groups)| DeviceLevel { level, groups })
        .collect()
}

fn place(root: &Path, bus: BusId, only_node: Option<u32>) -> DeviceLocation {
    let link = root.join(PCI_DEVICES).join(bus.to_string());
    let numa = fs::read_to_string(link.join("numa_node"));
    // The kernel says -1 where it knows none.
    let numa = numa.ok().and_then(|text| text.trim().parse().ok());
    DeviceLocation {
        numa: numa.or(only_node),
        bridges: bridges(&link),
    }
}

/// The bridges above a device, and itself at the end: its path below /sys has them all.
fn bridges(link: &Path) -> Vec<String> {
    let Ok(path) = fs::canonicalize(link) else {
        return Vec::new();
    };
    path.components().filter_map(function).collect()
}

/// A part of a path that is a device on the bus: `0000:17:00.0`.
fn function(part: Component<'_>) -> Option<String> {
    let text = part.as_os_str().to_str()?;
    let (address, function) = text.split_once('.')?;
    let numbers: Vec<&str> = address.split(':').chain([function]).collect();
    let is_hex = |text: &&str| u32::from_str_radix(text, 16).is_ok();
    (numbers.len() == 4 && numbers.iter().all(is_hex)).then(|| text.to_owned())
}

/// The number of the machine's memory node, if there is just one.
fn only_memory_node(root: &Path) -> Option<u32> {
    let entries = fs::read_dir(root.join(MEMORY_NODES)).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut nodes = names.filter_map(|name| name.strip_prefix("node")?.parse().ok());
    let first = nodes.next();
    first.filter(|_| nodes.next().is_none())
}

/// Devices by nearest memory.
fn numa(devices: &[(u32, DeviceLocation)]) -> Option<Vec<Vec<u32>>> {
    let keys = devices.iter().map(|(index, place)| (*index, place.numa));
    even(keys)
}

/// Devices by what NVLink links.
fn nvlink(devices: &[(u32, DeviceLocation)], linked: &[Vec<u32>]) -> Option<Vec<Vec<u32>>> {
    let keys = devices.iter().map(|(index, _)| {
        let group = linked.iter().position(|group| group.contains(index));
        (*index, group)
    });
    even(keys)
}

/// Devices by the closest bridge that each has in common with another.
fn pcie(devices: &[(u32, DeviceLocation)]) -> Option<Vec<Vec<u32>>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, place) in devices {
        for bridge in place.bridges.iter().collect::<BTreeSet<_>>() {
            *counts.entry(bridge).or_default() += 1;
        }
    }
    let is_shared = |bridge: &&String| counts.get(bridge.as_str()).is_some_and(|n| *n > 1);
    let keys = devices.iter().map(|(index, place)| {
        let closest = place.bridges.iter().rev().find(is_shared);
        (*index, closest)
    });
    even(keys)
}

/// Groups by key, if each device has one and all groups have the same size. Groups of one tell
/// nothing.
fn even<K: Ord>(keys: impl Iterator<Item = (u32, Option<K>)>) -> Option<Vec<Vec<u32>>> {
    let mut groups: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    for (index, key) in keys {
        groups.entry(key?).or_default().push(index);
    }
    let size = groups.values().next()?.len();
    let is_even = groups.values().all(|group| group.len() == size);
    (is_even && size > 1).then(|| groups.into_values().collect())
}
