//! NUMA nodes: which CPUs and how much memory each has, and which of them are a device's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use muster_model::inventory::NumaNode;

use super::cpu::set;
use super::cpu_set::CpuSet;
use super::kernel_file::{entries, number, numbered, text};

const NODES: &str = "sys/devices/system/node";
const NVIDIA_GPUS: &str = "proc/driver/nvidia/gpus";
const DAX_DEVICES: &str = "sys/bus/dax/devices";
/// The least distance, in the firmware's table, from CPUs to the memory of a GPU. Host memory
/// is nearer: persistent memory 17 and 28, HBM of Knights Landing 31 and 41.
const DEVICE_DISTANCE: u32 = 80;

/// The NUMA nodes of a machine.
#[derive(Clone, Debug, Default)]
pub(super) struct NumaNodes {
    /// Those of the host, by number.
    pub(super) nodes: Vec<MemoryNode>,
    /// Those that are memory of a device.
    pub(super) of_devices: Vec<MemoryNode>,
    /// Nodes that were taken for another one, because both list the same CPUs.
    merged: BTreeMap<u32, u32>,
    /// Whether the kernel names nodes with memory that are not online.
    pub(super) lacks_memory: bool,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MemoryNode {
    pub(super) id: u32,
    /// Those that are online.
    pub(super) cpus: CpuSet,
    pub(super) memory_kb: u64,
    /// Distances to all nodes, in the order of their numbers.
    distances: Vec<u32>,
}

impl MemoryNode {
    pub(super) fn to_model(&self) -> NumaNode {
        NumaNode {
            id: self.id,
            cpus: self.cpus.count(),
            cpu_list: self.cpus.to_string(),
            memory_mb: self.memory_kb / 1024,
        }
    }
}

impl NumaNodes {
    /// Reads them. `online` are the CPUs that are online, `total_kb` the machine's memory.
    pub(super) fn read(root: &Path, online: &CpuSet, total_kb: Option<u64>) -> Self {
        let all = memory_nodes(root, online);
        let devices = device_nodes(root, &all);
        let (of_devices, nodes) = all.into_iter().partition(|node| devices.contains(&node.id));
        let mut numa = Self {
            nodes,
            of_devices,
            ..Self::default()
        };
        numa.lacks_memory = numa.lacks_memory(root);
        numa.merge_same_cpus(total_kb);
        numa
    }

    /// The node of a device by the kernel's number, which is -1 where the firmware says
    /// nothing.
    pub(super) fn of_device(&self, told: Option<i64>) -> Option<u32> {
        match told.and_then(|number| u32::try_from(number).ok()) {
            Some(number) => Some(self.merged.get(&number).copied().unwrap_or(number)),
            None => self.only(),
        }
    }

    /// The machine's node, if just one has CPUs. A tree that tells no CPUs has just one.
    fn only(&self) -> Option<u32> {
        let with_cpus = self.nodes.iter().filter(|node| !node.cpus.is_empty());
        let mut ids: Vec<u32> = with_cpus.map(|node| node.id).collect();
        if ids.is_empty() {
            ids = self.nodes.iter().map(|node| node.id).collect();
        }
        match ids[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    fn lacks_memory(&self, root: &Path) -> bool {
        let is_online = |id: &u32| {
            let mut all = self.nodes.iter().chain(&self.of_devices);
            all.any(|node| node.id == *id)
        };
        let with_memory = node_set(root, "has_memory");
        !self.nodes.is_empty() && with_memory.is_some_and(|set| !set.0.iter().all(is_online))
    }

    /// Nodes that list the same CPUs are one: firmware that is wrong, or `numa=fake`.
    fn merge_same_cpus(&mut self, total_kb: Option<u64>) {
        let mut kept: Vec<MemoryNode> = Vec::new();
        for node in std::mem::take(&mut self.nodes) {
            let same = |other: &&mut MemoryNode| !node.cpus.is_empty() && other.cpus == node.cpus;
            match kept.iter_mut().find(same) {
                Some(other) => {
                    other.memory_kb =
                        (other.memory_kb + node.memory_kb).min(total_kb.unwrap_or(u64::MAX));
                    self.merged.insert(node.id, other.id);
                }
                None => kept.push(node),
            }
        }
        self.nodes = kept;
    }
}

/// Every node that is online, by number.
fn memory_nodes(root: &Path, online: &CpuSet) -> Vec<MemoryNode> {
    let listed = node_set(root, "online").filter(|set| !set.is_empty());
    let is_online = |id: &u32| listed.as_ref().is_none_or(|set| set.contains(*id));
    let dirs = numbered(root.join(NODES), "node").into_iter();
    let nodes = dirs.filter(|(id, _)| is_online(id)).map(|(id, dir)| {
        let cpus = set(&dir.join("cpumap"), &dir.join("cpulist"));
        let cpus = cpus.unwrap_or_else(|| linked_cpus(&dir));
        MemoryNode {
            id,
            cpus: cpus.intersection(online),
            memory_kb: memory_kb(&dir).unwrap_or(0),
            distances: distances(&dir),
        }
    });
    nodes.collect()
}

/// A set of nodes by the name of its file. None where the kernel has no such file, or left it
/// empty.
fn node_set(root: &Path, name: &str) -> Option<CpuSet> {
    CpuSet::from_list(&text(root.join(NODES).join(name))?)
}

/// CPUs by the links in a node's directory.
fn linked_cpus(dir: &Path) -> CpuSet {
    let cpus = numbered(dir, "cpu").into_iter();
    CpuSet(cpus.map(|(cpu, _)| cpu).collect())
}

/// `Node 0 MemTotal:  131732940 kB`.
fn memory_kb(dir: &Path) -> Option<u64> {
    let text = text(dir.join("meminfo"))?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    line.split_whitespace().rev().nth(1)?.parse().ok()
}

fn distances(dir: &Path) -> Vec<u32> {
    let text = text(dir.join("distance")).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect()
}

/// Nodes that are memory of a device: those that NVIDIA's driver names, and those that look
/// like them where it does not say.
fn device_nodes(root: &Path, nodes: &[MemoryNode]) -> BTreeSet<u32> {
    let normal = node_set(root, "has_normal_memory").unwrap_or_default();
    let dax = dax_nodes(root);
    let alike = nodes.iter().filter(|node| {
        let is_bare = node.cpus.is_empty() && node.memory_kb > 0;
        is_bare && !normal.contains(node.id) && !dax.contains(&node.id) && is_far(node, nodes)
    });
    let alike: BTreeSet<u32> = alike.map(|node| node.id).collect();
    let named = nodes_of_nvidia(root);
    let hosts = nodes.iter().filter(|node| !node.cpus.is_empty());
    let hosts: BTreeSet<u32> = hosts.map(|node| node.id).collect();
    &(&alike | &named) - &hosts
}

/// As the driver says for each GPU whose memory it made a node: `Node:  255`.
fn nodes_of_nvidia(root: &Path) -> BTreeSet<u32> {
    let gpus = entries(root.join(NVIDIA_GPUS)).into_iter();
    let texts = gpus.filter_map(|(_, dir)| text(dir.join("numa_status")));
    let numbers = texts.flat_map(|text| {
        let lines = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("Node:"));
        let numbers = lines.filter_map(|number| number.trim().parse().ok());
        numbers.collect::<Vec<u32>>()
    });
    numbers.collect()
}

/// Nodes that the kernel made of persistent memory or CXL memory: these are the host's.
fn dax_nodes(root: &Path) -> BTreeSet<u32> {
    let devices = entries(root.join(DAX_DEVICES)).into_iter();
    let nodes = devices.filter_map(|(_, dir)| number(dir.join("target_node")));
    nodes.filter_map(|node| u32::try_from(node).ok()).collect()
}

/// Whether all CPUs are as far away as from the memory of a GPU. The columns of the table are
/// the nodes that are online, not their numbers.
fn is_far(node: &MemoryNode, nodes: &[MemoryNode]) -> bool {
    if node.distances.len() != nodes.len() {
        return false;
    }
    let to_cpus = nodes.iter().zip(&node.distances);
    let to_cpus = to_cpus.filter(|(other, _)| !other.cpus.is_empty());
    to_cpus.map(|(_, distance)| *distance).min() >= Some(DEVICE_DISTANCE)
}
