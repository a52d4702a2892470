//! AMD's GPUs, as the kernel's driver for computing (KFD) tells them.
//!
//! KFD numbers CPUs and GPUs as nodes of one topology. A card that is divided (CPX and its like)
//! has a node for each partition.

mod kfd;
mod models;
mod sample;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use muster_model::cluster_spec::Level;
use muster_model::inventory::{Accelerator, AcceleratorKind};
use muster_model::node::DeviceLevel;

use super::{DeviceAccess, FoundDevice, VendorInventory};
pub use kfd::{KfdGpu, PciPlace, gpus};
pub use models::{AmdModel, model};
pub use sample::{AmdSample, samples};

/// AMD's GPUs of the machine whose file tree is at `root`, in the order of KFD, which need not
/// be that of the bus.
///
/// A partition has the address of its card with the partition's number as the function, as
/// AMD's own tools write it; only its card's is on the bus. GPUs that xGMI links are one group
/// of the level `nvlink`. The partitions of a card are one group of the level `pcie`, the
/// narrowest: they share the card's one link to the bus, and nothing lies nearer to each other.
pub fn read(root: &Path) -> VendorInventory {
    let (gpus, problems) = gpus(root);
    VendorInventory {
        devices: gpus.iter().map(|gpu| device(root, gpu)).collect(),
        levels: levels(&gpus),
        problems,
    }
}

/// The device files that a task needs to use one GPU and no other: KFD's, which is shared, and
/// the GPU's own.
pub fn device_files(gpu: &KfdGpu) -> Vec<String> {
    let own = gpu
        .render_minor
        .map(|minor| format!("/dev/dri/renderD{minor}"));
    let shared = ["/dev/kfd".to_owned()];
    shared.into_iter().chain(own).collect()
}

fn device(root: &Path, gpu: &KfdGpu) -> FoundDevice {
    let mut access = DeviceAccess::by_files(root, gpu.id(), device_files(gpu));
    if gpu.render_minor.is_none() {
        access.fault = Some("the driver does not name its file in /dev/dri".to_owned());
    }
    FoundDevice::listed(accelerator(gpu), Some(access))
}

fn accelerator(gpu: &KfdGpu) -> Accelerator {
    let known = model(gpu.device);
    let is_unified = known.is_some_and(|known| known.is_unified);
    let model = known.map_or_else(
        || format!("{:04x}:{:04x}", kfd::VENDOR, gpu.device),
        |known| known.name.to_owned(),
    );
    Accelerator {
        kind: AcceleratorKind::Gpu,
        vendor: "amd".to_owned(),
        model,
        pci: Some(gpu.place.to_string()),
        numa: gpu.numa,
        memory_mb: if is_unified {
            0
        } else {
            gpu.memory_bytes >> 20
        },
        partition_of: gpu.partition.map(|_| gpu.card.to_string()),
    }
}

/// The widest first.
fn levels(gpus: &[KfdGpu]) -> Vec<DeviceLevel> {
    let hive = |gpu: &KfdGpu| gpu.hive;
    let card = |gpu: &KfdGpu| gpu.partition.map(|_| gpu.card);
    let mut hives = groups(gpus, hive);
    // A hive of one card links its partitions no closer than the card does.
    hives.retain(|group| {
        let mut cards = group.iter().filter_map(|at| gpus.get(*at as usize));
        let first = cards.next().map(|gpu| gpu.card);
        cards.any(|gpu| Some(gpu.card) != first)
    });
    let all = [(Level::Nvlink, hives), (Level::Pcie, groups(gpus, card))];
    let known = all.into_iter().filter(|(_, groups)| !groups.is_empty());
    known
        .map(|(level, groups)| DeviceLevel { level, groups })
        .collect()
}

/// Places of the GPUs that have a key, by key, in the order of their first. One alone is no group.
fn groups<K: Ord>(gpus: &[KfdGpu], key: impl Fn(&KfdGpu) -> Option<K>) -> Vec<Vec<u32>> {
    let mut groups: BTreeMap<K, Vec<u32>> = BTreeMap::new();
    for (at, gpu) in (0..).zip(gpus) {
        if let Some(key) = key(gpu) {
            groups.entry(key).or_default().push(at);
        }
    }
    let mut groups: Vec<Vec<u32>> = groups.into_values().filter(|g| g.len() > 1).collect();
    groups.sort_unstable();
    groups
}
