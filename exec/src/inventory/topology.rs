//! The ways between devices and network adapters, by their places on the PCI bus.

use std::fs;
use std::path::Path;

use muster_model::cluster_spec::Level;
use muster_model::inventory::{Accelerator, Inventory};
use muster_model::topology::{DeviceLink, Topology, TopologyPoint};

use super::kernel_file::{entries, number, text};
use super::pci::{PciAddress, addresses};
use super::witness::AMD;

const ADAPTERS: &str = "sys/class/infiniband";
const PCI_DEVICES: &str = "sys/bus/pci/devices";
const HOST_NAME: &str = "proc/sys/kernel/hostname";
/// A machine whose tree does not tell its name.
const NAMELESS: &str = "machine";

/// A device or an adapter with its place on the PCI bus, as far as the kernel tells it.
#[derive(Debug)]
struct Place {
    name: String,
    model: String,
    /// Its place in the inventory. None for an adapter.
    device: Option<u32>,
    vendor: String,
    numa: Option<u32>,
    bus: Option<BusPath>,
    /// The card of a partition.
    card: Option<String>,
}

/// The way from the root of the bus to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BusPath {
    /// The host bridge: `pci0000:17`.
    root: String,
    /// The bridges above the device, the outermost first.
    bridges: Vec<PciAddress>,
}

/// The ways between the devices of an inventory and the adapters of the machine whose file tree is
/// at `root`.
pub fn topology(root: &Path, inventory: &Inventory) -> Topology {
    let devices = (0..).zip(&inventory.devices);
    let mut places: Vec<Place> = devices.map(|(at, it)| of_device(root, at, it)).collect();
    let adapters = entries(root.join(ADAPTERS)).into_iter().enumerate();
    places.extend(adapters.map(|(at, (name, dir))| of_adapter(at, name, &dir.join("device"))));
    let cpus = |numa: Option<u32>| {
        let mut nodes = inventory.numa.iter();
        let node = nodes.find(|node| Some(node.id) == numa);
        node.map_or_else(String::new, |node| node.cpu_list.clone())
    };
    let points = places.iter().map(|place| TopologyPoint {
        name: place.name.clone(),
        model: place.model.clone(),
        numa: place.numa,
        cpus: cpus(place.numa),
        links: places
            .iter()
            .map(|other| link(inventory, place, other))
            .collect(),
    });
    let host = text(root.join(HOST_NAME)).filter(|name| !name.is_empty());
    Topology {
        host: host.unwrap_or_else(|| NAMELESS.to_owned()),
        points: points.collect(),
    }
}

fn of_device(root: &Path, at: u32, device: &Accelerator) -> Place {
    let on_bus = device.partition_of.as_ref().or(device.pci.as_ref());
    Place {
        name: format!("{}{at}", device.kind.as_str().to_ascii_uppercase()),
        model: device.model.clone(),
        device: Some(at),
        vendor: device.vendor.clone(),
        numa: device.numa,
        bus: on_bus.and_then(|address| bus_path(&root.join(PCI_DEVICES).join(address))),
        card: device.partition_of.clone(),
    }
}

fn of_adapter(at: usize, name: String, dir: &Path) -> Place {
    let numa = number(dir.join("numa_node"));
    Place {
        name: format!("NIC{at}"),
        model: name,
        device: None,
        vendor: String::new(),
        numa: numa.and_then(|numa| u32::try_from(numa).ok()),
        bus: bus_path(dir),
        card: None,
    }
}

fn bus_path(dir: &Path) -> Option<BusPath> {
    let mut bridges = addresses(dir);
    bridges.pop()?;
    let path = fs::canonicalize(dir).ok()?;
    let mut parts = path
        .components()
        .filter_map(|part| part.as_os_str().to_str());
    let root = parts.find(|part| part.starts_with("pci") && part.contains(':'));
    Some(BusPath {
        root: root.unwrap_or_default().to_owned(),
        bridges,
    })
}

fn link(inventory: &Inventory, one: &Place, other: &Place) -> DeviceLink {
    if one.name == other.name {
        return DeviceLink::X;
    }
    if one.card.is_some() && one.card == other.card {
        return DeviceLink::Card;
    }
    if is_linked(inventory, one, other) {
        return match &*one.vendor {
            AMD => DeviceLink::Xgmi,
            _ => DeviceLink::Nv,
        };
    }
    let by_bus = match (&one.bus, &other.bus) {
        (Some(one), Some(other)) => by_bus(one, other),
        _ => None,
    };
    by_bus.unwrap_or(match (one.numa, other.numa) {
        (Some(one), Some(other)) if one == other => DeviceLink::Node,
        (Some(_), Some(_)) => DeviceLink::Sys,
        _ => DeviceLink::Unknown,
    })
}

fn is_linked(inventory: &Inventory, one: &Place, other: &Place) -> bool {
    let (Some(one), Some(other)) = (one.device, other.device) else {
        return false;
    };
    let mut links = inventory
        .levels
        .iter()
        .filter(|it| it.level == Level::Nvlink);
    links.any(|level| {
        let mut groups = level.groups.iter();
        groups.any(|group| group.contains(&one) && group.contains(&other))
    })
}

/// None if they are below different host bridges.
fn by_bus(one: &BusPath, other: &BusPath) -> Option<DeviceLink> {
    if one.root != other.root {
        return None;
    }
    let pairs = one.bridges.iter().zip(&other.bridges);
    let shared = pairs.take_while(|(a, b)| a == b).count();
    let below = one.bridges.len().max(other.bridges.len()) - shared;
    Some(match (shared, below) {
        (0, _) => DeviceLink::Phb,
        (_, 0 | 1) => DeviceLink::Pix,
        _ => DeviceLink::Pxb,
    })
}
