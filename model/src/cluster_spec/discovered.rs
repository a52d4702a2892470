//! A cluster as it was found: machines, their devices, and what lies near to what.

mod device_group;
mod leaf_type;
mod promised;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use self::device_group::DeviceGroup;
pub use self::leaf_type::kind_of_leaf;
use self::leaf_type::leaf_name;
pub use self::promised::ABSENT;
use super::{CellSpec, CellType, ClusterSpec, LEAVES_MAX, Level, QuotaSpec, SpecProblem, VcSpec};
use crate::id::{NodeId, VcName};
use crate::node::{Capacity, Device};

/// The type of cells for tasks that need no device. Cores and memory are counted by machine, so
/// such a cell has no share of them: it is a place to run.
pub const PLAIN_LEAF: &str = "CPU";
/// The address of a machine's first cell of that type, and the number that no device has.
pub const CPU_LEAF_FIRST: u32 = 1_000_000;
/// Such cells of one machine: as many as a machine can have cells of one type.
pub const CPU_LEAVES: u32 = 128;
/// Devices of one type that are taken in on one machine.
pub const NODE_DEVICES_MAX: usize = 128;
pub(super) const PLAIN_NODE: &str = "CPU-NODE";
/// The virtual cluster whose everything is where nothing is promised to anybody.
pub const EVERYTHING: &str = "default";

/// What was made of the machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The cluster.
    pub spec: ClusterSpec,
    /// Devices and machines that have no place in it, each as a sentence.
    pub left_out: Vec<String>,
    /// Promises that are not in it, for no machine has such cells.
    pub unmet: Vec<SpecProblem>,
}

/// All machines so far.
#[derive(Default)]
struct MachineSurvey {
    found: Discovered,
    leaves: u64,
}

impl ClusterSpec {
    /// The cluster as it was found, promised to virtual clusters as they say; if there are none, all
    /// of it to the virtual cluster `default`.
    ///
    /// Where more cells of a type are promised than there are, cells that nobody can use stand for
    /// the rest: a promise outlives a machine that is away.
    ///
    /// Each machine is one cell for each type of device it has, with cells inside for the levels
    /// whose groups are equal, and groups for the others; and one cell of [`CPU_LEAVES`] places for tasks without devices. Machines of one
    /// shape share a chain. Sick devices are in: what is sick is told apart. The same machines
    /// give the same cluster, in whatever order they come.
    pub fn of_nodes<'a>(
        nodes: impl Iterator<Item = (&'a NodeId, &'a Capacity)>,
        vcs: &BTreeMap<VcName, VcSpec>,
    ) -> Discovered {
        let nodes: BTreeMap<&NodeId, &Capacity> = nodes.collect();
        let mut survey = MachineSurvey::default();
        for (id, capacity) in nodes {
            survey.machine(id, capacity);
        }
        match vcs.is_empty() {
            true => survey.promise_all(),
            false => survey.promise(vcs),
        }
        survey.found
    }
}

impl MachineSurvey {
    fn machine(&mut self, id: &NodeId, capacity: &Capacity) {
        let parts = self.parts(id, capacity);
        let devices = parts.iter().map(|part| part.order.len() as u64);
        let leaves = self.leaves + u64::from(CPU_LEAVES) + devices.sum::<u64>();
        if leaves > u64::from(LEAVES_MAX) {
            let sentence = format!(
                "{id} is left out: the cluster would have more than {LEAVES_MAX} places for tasks"
            );
            return self.found.left_out.push(sentence);
        }
        self.leaves = leaves;
        let spec = &mut self.found.spec;
        for part in &parts {
            spec.cells
                .push(part.cell(id.as_str(), &mut spec.cell_types));
        }
        spec.cells.push(plain(id.as_str(), &mut spec.cell_types));
    }

    /// The machine's devices by type.
    fn parts(&mut self, id: &NodeId, capacity: &Capacity) -> Vec<DeviceGroup> {
        let mut kinds: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for (index, device) in self.devices(id, capacity) {
            let name = leaf_name(device.kind, &device.model);
            kinds.entry(name).or_default().insert(index);
        }
        let mut parts = Vec::new();
        for (name, devices) in kinds {
            if devices.len() > NODE_DEVICES_MAX {
                let count = devices.len();
                self.found.left_out.push(format!(
                    "{id} has {count} devices of type {name}: only the first {NODE_DEVICES_MAX} \
                     are used"
                ));
            }
            let devices = devices.into_iter().take(NODE_DEVICES_MAX).collect();
            parts.push(DeviceGroup::new(name, devices, &capacity.levels));
        }
        parts
    }

    /// By index. Of two devices that claim one index, the healthy one has it.
    fn devices<'a>(&mut self, id: &NodeId, capacity: &'a Capacity) -> BTreeMap<u32, &'a Device> {
        let mut devices = BTreeMap::new();
        let (sick, healthy): (Vec<_>, Vec<_>) =
            capacity.devices.iter().partition(|d| d.fault.is_some());
        for device in healthy.into_iter().chain(sick) {
            if device.index < CPU_LEAF_FIRST {
                devices.entry(device.index).or_insert(device);
            } else {
                self.found.left_out.push(format!(
                    "device {} of {id} is left out: its index is above {}",
                    device.index,
                    CPU_LEAF_FIRST - 1
                ));
            }
        }
        devices
    }

    /// Promises everything to one virtual cluster.
    fn promise_all(&mut self) {
        let spec = &mut self.found.spec;
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for cell in &spec.cells {
            *counts.entry(&cell.cell_type).or_default() += 1;
        }
        let quota = counts.into_iter().map(|(cell_type, count)| QuotaSpec {
            path: vec![cell_type.to_owned()],
            count,
        });
        let vc = VcSpec {
            quota: quota.collect(),
            pinned: Vec::new(),
        };
        if let Ok(name) = EVERYTHING.parse() {
            spec.virtual_clusters.insert(name, vc);
        }
    }
}

/// A machine's places for tasks without devices.
fn plain(address: &str, types: &mut BTreeMap<String, CellType>) -> CellSpec {
    let kind = || CellType {
        child: PLAIN_LEAF.to_owned(),
        count: CPU_LEAVES,
        node_level: true,
        level: Some(Level::Node),
        uneven: Vec::new(),
    };
    types.entry(PLAIN_NODE.to_owned()).or_insert_with(kind);
    let leaf = |number: u32| CellSpec {
        cell_type: PLAIN_LEAF.to_owned(),
        address: (CPU_LEAF_FIRST + number).to_string(),
        ..CellSpec::default()
    };
    CellSpec {
        cell_type: PLAIN_NODE.to_owned(),
        address: address.to_owned(),
        pinned: None,
        children: (0..CPU_LEAVES).map(leaf).collect(),
    }
}
