//! A cluster as it was found: machines, their devices, and what lies near to what.

mod promised;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use self::promised::ABSENT;
use super::{CellSpec, CellType, ClusterSpec, LEAVES_MAX, Level, QuotaSpec, SpecProblem, VcSpec};
use crate::id::{NodeId, VcName};
use crate::node::{Capacity, DeviceLevel};

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
/// Longest name of a device type, in characters.
const NAME_LENGTH_MAX: usize = 64;

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

/// Devices of one type on one machine.
struct DeviceGroup {
    name: String,
    /// Device indices; those that lie near each other follow each other.
    order: Vec<u32>,
    /// Each level and how many devices a cell of it has, outermost first; the machine itself.
    levels: Vec<(Level, usize)>,
}

impl ClusterSpec {
    /// The cluster as it was found, promised to virtual clusters as they say; if there are none, all
    /// of it to the virtual cluster `default`.
    ///
    /// Where more cells of a type are promised than there are, cells that nobody can use stand for
    /// the rest: a promise outlives a machine that is away.
    ///
    /// Each machine is one cell for each type of device it has, with the levels inside that are
    /// regular, and one cell of [`CPU_LEAVES`] places for tasks without devices. Machines of one
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
        for (index, model) in self.devices(id, capacity) {
            let of_kind = kinds.entry(leaf_name(model)).or_default();
            of_kind.insert(index);
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

    /// Models by index. Of two devices that claim one index, the healthy one has it.
    fn devices<'a>(&mut self, id: &NodeId, capacity: &'a Capacity) -> BTreeMap<u32, &'a str> {
        let mut devices = BTreeMap::new();
        let (sick, healthy): (Vec<_>, Vec<_>) =
            capacity.devices.iter().partition(|d| d.fault.is_some());
        for device in healthy.into_iter().chain(sick) {
            if device.index < CPU_LEAF_FIRST {
                devices.entry(device.index).or_insert(&*device.model);
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

impl DeviceGroup {
    fn new(name: String, devices: BTreeSet<u32>, levels: &[DeviceLevel]) -> Self {
        let mut pieces = vec![devices.iter().copied().collect::<Vec<u32>>()];
        let mut shape = vec![(Level::Node, devices.len())];
        for level in levels {
            let is_new = shape.iter().all(|(known, _)| *known != level.level);
            if !level.level.is_inside_node() || !is_new {
                continue;
            }
            if let Some(finer) = divided(&pieces, level) {
                shape.push((level.level, finer.first().map_or(1, Vec::len)));
                pieces = finer;
            }
        }
        Self {
            name,
            order: pieces.concat(),
            levels: shape,
        }
    }

    /// The machine's cell; its types are added where they are new.
    fn cell(&self, address: &str, types: &mut BTreeMap<String, CellType>) -> CellSpec {
        let names = self.type_names();
        for (at, (level, size)) in self.levels.iter().enumerate() {
            let below = self.levels.get(at + 1).map_or(1, |(_, size)| *size);
            let kind = CellType {
                child: names[at + 1].clone(),
                count: u32::try_from(size / below).unwrap_or(1),
                node_level: at == 0,
                level: Some(*level),
            };
            types.entry(names[at].clone()).or_insert(kind);
        }
        self.cell_at(0, &names, &self.order, address.to_owned())
    }

    /// The cell of a level that has these devices.
    fn cell_at(&self, at: usize, names: &[String], order: &[u32], address: String) -> CellSpec {
        let is_leaf = at == self.levels.len();
        let child = |(number, piece): (usize, &[u32])| {
            let address = match piece {
                [device] if at + 1 == self.levels.len() => device.to_string(),
                _ => number.to_string(),
            };
            self.cell_at(at + 1, names, piece, address)
        };
        let below = self.levels.get(at + 1).map_or(1, |(_, size)| *size);
        let pieces = order.chunks(below).enumerate().filter(|_| !is_leaf);
        let children = pieces.map(child).collect();
        CellSpec {
            cell_type: names[at].clone(),
            address,
            children,
            ..CellSpec::default()
        }
    }

    /// A name for each level and the leaf, outermost first. It tells the whole shape below, so
    /// that one name is one shape: `V100-NODE-8-NUMA-4-PCIE-2`.
    fn type_names(&self) -> Vec<String> {
        let words = |(level, size): &(Level, usize)| {
            let level = level.as_str().to_ascii_uppercase();
            format!("-{level}-{size}")
        };
        let shape: Vec<String> = self.levels.iter().map(words).collect();
        let from = |at: usize| format!("{}{}", self.name, shape[at..].concat());
        (0..=shape.len()).map(from).collect()
    }
}

/// Each piece divided into the level's groups, if they divide all pieces into equal parts.
fn divided(pieces: &[Vec<u32>], level: &DeviceLevel) -> Option<Vec<Vec<u32>>> {
    let mut group_of = BTreeMap::new();
    for (number, group) in level.groups.iter().enumerate() {
        for device in group {
            if group_of.insert(*device, number).is_some() {
                return None;
            }
        }
    }
    let mut finer: Vec<Vec<u32>> = Vec::new();
    let mut seen = BTreeSet::new();
    for piece in pieces {
        let mut parts: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for device in piece {
            parts
                .entry(*group_of.get(device)?)
                .or_default()
                .push(*device);
        }
        if !parts.keys().all(|number| seen.insert(*number)) {
            return None;
        }
        let mut parts: Vec<Vec<u32>> = parts.into_values().collect();
        parts.sort_unstable();
        finer.append(&mut parts);
    }
    let size = finer.first()?.len();
    finer.iter().all(|part| part.len() == size).then_some(finer)
}

/// A machine's places for tasks without devices.
fn plain(address: &str, types: &mut BTreeMap<String, CellType>) -> CellSpec {
    let kind = || CellType {
        child: PLAIN_LEAF.to_owned(),
        count: CPU_LEAVES,
        node_level: true,
        level: Some(Level::Node),
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

/// A device's model as a plain word: `Tesla V100-SXM2-16GB` is `Tesla-V100-SXM2-16GB`. Never the
/// name of a type that is made of it or of plain CPU.
fn leaf_name(model: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = model.split(|c: char| !is_plain(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").chars().take(NAME_LENGTH_MAX).collect();
    let is_level = |word: &&str| {
        let level = word.to_ascii_lowercase().parse::<Level>();
        level.is_ok()
    };
    let looks_made = match name.split('-').collect::<Vec<_>>()[..] {
        [.., level, size] => is_level(&level) && size.bytes().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    match &*name {
        "" => "DEVICE".to_owned(),
        PLAIN_LEAF | PLAIN_NODE => format!("{name}-DEVICE"),
        _ if looks_made => format!("{name}-DEVICE"),
        _ => name,
    }
}
