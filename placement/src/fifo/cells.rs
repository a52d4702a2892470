//! What can be given out: nodes with their sizes, what is free on them, and who has the rest.

use std::collections::BTreeMap;

use muster_model::id::NodeId;
use muster_model::node::{Capacity, DeviceId, Free};

/// Every node that may be placed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// By id, which is also the order in which they are tried.
    pub nodes: BTreeMap<NodeId, Node>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What it has, healthy or not in use alike.
    pub size: Size,
    /// What is free.
    pub free: Free,
    /// Who holds the rest.
    pub holders: Vec<Holder>,
}

/// What a node has in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Cores.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Healthy devices.
    pub gpu: u32,
    /// Ports.
    pub ports: u32,
}

/// Something placed on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What to call it: `user~job`.
    pub name: String,
    /// Cores it holds there.
    pub cpu: u32,
    /// Memory it holds there, MiB.
    pub memory_mb: u64,
    /// Devices it holds there.
    pub gpu: u32,
}

impl Size {
    /// The size that a node's capacity amounts to.
    pub fn of(capacity: &Capacity) -> Self {
        let healthy = capacity.devices.iter().filter(|d| d.fault.is_none());
        Self {
            cpu: capacity.cpu,
            memory_mb: capacity.memory_mb,
            gpu: u32::try_from(healthy.count()).unwrap_or(u32::MAX),
            ports: u32::from(capacity.port_last.saturating_sub(capacity.port_first)) + 1,
        }
    }
}

impl Node {
    /// Takes what a task needs out of the free list; the devices it gets, or nothing taken.
    pub(crate) fn take(&mut self, need: &super::queue::Need) -> Option<Vec<(u32, DeviceId)>> {
        let gpu = usize::try_from(need.gpu).ok()?;
        let fits = self.free.cpu >= need.cpu
            && self.free.memory_mb >= need.memory_mb
            && self.free.ports >= need.ports
            && self.free.devices.len() >= gpu;
        if !fits {
            return None;
        }
        self.free.cpu -= need.cpu;
        self.free.memory_mb -= need.memory_mb;
        self.free.ports -= need.ports;
        Some(self.free.devices.drain(..gpu).collect())
    }

    /// The same node with nothing placed on it; its devices have no names that matter.
    pub(crate) fn emptied(&self) -> Self {
        let device = |index| (index, DeviceId(String::new()));
        Self {
            free: Free {
                cpu: self.size.cpu,
                memory_mb: self.size.memory_mb,
                devices: (0..self.size.gpu).map(device).collect(),
                ports: self.size.ports,
            },
            ..self.clone()
        }
    }
}
