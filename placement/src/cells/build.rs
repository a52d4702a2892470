//! Cells from a description: numbers for everything, then every quota cell bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::cluster_spec::{
    CPU_LEAF_FIRST, CellSpec, ClusterSpec, LEAVES_MAX, PLAIN_LEAF, SpecProblem, kind_of_leaf,
};
use muster_model::inventory::AcceleratorKind;

use super::{Bins, Cells, Chain, ChainStock, Dirty, Leaves, NodeTable, Owners, PlacedGangs};
use crate::index::{BIN_LEAVES_MAX, LeafView, NONE, Shape, UnevenGroups, ViewFrame, at, small};

/// A pinned cell of the description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pin {
    pub(super) chain: usize,
    pub(super) level: usize,
    pub(super) cell: u32,
}

/// What is being built, and what is wrong with it so far.
pub(super) struct CellsBuilder<'a> {
    pub(super) spec: &'a ClusterSpec,
    pub(super) cells: Cells,
    pub(super) pins: BTreeMap<&'a str, Pin>,
    pub(super) frames: BTreeMap<(usize, usize), Arc<ViewFrame>>,
    problems: Vec<SpecProblem>,
}

/// Where a physical cell of the description stands.
struct CellPosition {
    chain: usize,
    level: usize,
    cell: u32,
    path: String,
}

impl Cells {
    /// Cells as described: everything healthy and free, every quota cell bound.
    ///
    /// # Errors
    /// Everything that is wrong, each with the path of the field: a tree that is not regular,
    /// a machine or device named twice, more promised than there is.
    pub fn new(spec: &ClusterSpec, bins: Bins) -> Result<Self, Vec<SpecProblem>> {
        Self::owned(spec, bins, None)
    }

    /// Cells as described, on leaves that each virtual cluster has; what it has none for is not bound.
    ///
    /// # Errors
    /// As with [`Cells::new`], but that more may be promised than there is.
    pub fn owned(
        spec: &ClusterSpec,
        bins: Bins,
        owners: Option<Owners>,
    ) -> Result<Self, Vec<SpecProblem>> {
        let cells = Self {
            bins,
            owners,
            chains: Vec::new(),
            leaves: Leaves::default(),
            nodes: NodeTable::default(),
            quotas: Vec::new(),
            pools: Vec::new(),
            vcs: BTreeMap::new(),
            gangs: PlacedGangs::default(),
            dirty: Dirty::default(),
            racks: BTreeMap::new(),
        };
        let mut build = CellsBuilder {
            spec,
            cells,
            pins: BTreeMap::new(),
            frames: BTreeMap::new(),
            problems: Vec::new(),
        };
        build.chains();
        if build.problems.is_empty() {
            build.machines();
        }
        if build.problems.is_empty() {
            build.cells.own();
            build.promises();
        }
        if !build.problems.is_empty() {
            return Err(build.problems);
        }
        build.cells.touch_everything();
        build.cells.refresh();
        Ok(build.cells)
    }
}

impl<'a> CellsBuilder<'a> {
    pub(super) fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(SpecProblem::new(path, message));
    }

    fn chains(&mut self) {
        let mut tops: Vec<(&str, u32)> = Vec::new();
        for cell in &self.spec.cells {
            match tops.iter_mut().find(|top| top.0 == cell.cell_type) {
                Some(top) => top.1 += 1,
                None => tops.push((&cell.cell_type, 1)),
            }
        }
        // The order in which a gang tries them: HiveD's suites have theirs from Z to A.
        tops.sort_by(|a, b| b.0.cmp(a.0));
        for (top, count) in tops {
            match self.shape(top, count) {
                Ok(shape) => self.chain(&shape),
                Err(message) => self.problem(format!("physicalCluster.cellTypes.{top}"), message),
            }
        }
    }

    fn shape(&self, top: &str, tops: u32) -> Result<Shape, String> {
        let types = self.spec.path_down(top)?;
        let mut shape = Shape {
            types: vec![
                types
                    .last()
                    .map(|leaf| (*leaf).to_owned())
                    .unwrap_or_default(),
            ],
            size: vec![1],
            levels: vec![None],
            node: 0,
            tops,
            uneven: Vec::new(),
        };
        for name in types.iter().rev().skip(1) {
            let Some(kind) = self.spec.cell_types.get(*name) else {
                continue;
            };
            let size = shape.size[shape.top()].checked_mul(kind.count.max(1));
            let size = size.filter(|size| *size <= LEAVES_MAX);
            shape.size.push(size.ok_or("has too many devices")?);
            shape.types.push((*name).to_owned());
            shape.levels.push(kind.level);
            if kind.node_level && shape.node > 0 {
                return Err(format!(
                    "has two types with isNodeLevel: true, {name} is one"
                ));
            }
            if kind.node_level {
                shape.node = shape.top();
                shape.uneven = kind.uneven.iter().map(UnevenGroups::new).collect();
            }
        }
        let devices = shape.size[shape.node];
        if shape.node == 0 {
            return Err("has no type with isNodeLevel: true; say which one is a machine".into());
        }
        if devices > BIN_LEAVES_MAX {
            return Err(format!(
                "a {} has {devices} leaf cells; at most {BIN_LEAVES_MAX} are possible, make a \
                 leaf cell a larger share",
                shape.types[shape.node]
            ));
        }
        let is_whole = |groups: &UnevenGroups| groups.starts.last() == Some(&devices);
        if !shape.uneven.iter().all(is_whole) {
            return Err("has groups that are not all of its devices".into());
        }
        let before = u64::from(self.cells.leaf_count());
        let all = u64::from(shape.size[shape.top()]) * u64::from(tops) + before;
        if all > u64::from(LEAVES_MAX) {
            return Err(format!("more than {LEAVES_MAX} devices in all"));
        }
        Ok(shape)
    }

    fn chain(&mut self, shape: &Shape) {
        let cells = &mut self.cells;
        let frame = Arc::new(ViewFrame::new(shape, shape.node));
        self.frames
            .insert((cells.chains.len(), shape.node), Arc::clone(&frame));
        // For HiveD any type is any type.
        let is_told_apart = cells.bins == Bins::Merged;
        let is_plain = is_told_apart && is_without_device(self.spec, &shape.types[0]);
        let is_gpu = kind_of_leaf(&shape.types[0]) == AcceleratorKind::Gpu;
        cells.chains.push(Chain {
            is_plain,
            is_for_any: !is_plain && (is_gpu || !is_told_apart),
            leaf_base: cells.leaf_count(),
            node_base: small(cells.nodes.name.len()),
            quiet: LeafView::new(&frame),
            free: LeafView::new(&frame),
            bad: 0,
            unplaced: None,
            guaranteed: 0,
            stock: ChainStock::default(),
            away: BTreeSet::new(),
            shape: shape.clone(),
        });
        let leaves = cells.leaves.holder.len() + at(shape.leaves());
        cells.leaves.holder.resize(leaves, NONE);
        cells.leaves.claim.resize(leaves, NONE);
        cells.leaves.quota.resize(leaves, NONE);
        cells.leaves.owner.resize(leaves, NONE);
        cells.leaves.fault.resize(leaves, 0);
        cells.leaves.device.resize(leaves, 0);
        let nodes = cells.nodes.name.len() + at(shape.count(shape.node));
        cells.nodes.name.resize(nodes, String::new());
        cells.nodes.guaranteed.resize(nodes, 0);
        cells.dirty.is_dirty.resize(nodes, false);
    }

    fn machines(&mut self) {
        let spec = self.spec;
        let mut seen = vec![0; self.cells.chains.len()];
        for (number, cell) in spec.cells.iter().enumerate() {
            let chains = &mut self.cells.chains.iter();
            let top = |chain: &Chain| chain.shape.types.last() == Some(&cell.cell_type);
            let Some(chain) = chains.position(top) else {
                continue;
            };
            let place = CellPosition {
                chain,
                level: self.cells.chains[chain].shape.top(),
                cell: seen[chain],
                path: format!("physicalCluster.physicalCells[{number}]"),
            };
            seen[chain] += 1;
            self.physical(cell, &place);
        }
        self.cells.number_machines();
        self.number_plain();
        if self.problems.is_empty() {
            self.no_device_twice();
        }
    }

    fn physical(&mut self, spec: &'a CellSpec, place: &CellPosition) {
        let shape = &self.cells.chains[place.chain].shape;
        if spec.cell_type != shape.types[place.level] {
            let message = format!("is {}, not {}", spec.cell_type, shape.types[place.level]);
            return self.problem(format!("{}.cellType", place.path), message);
        }
        if let Some(id) = &spec.pinned {
            self.pin(id, place);
        }
        if place.level == self.cells.chains[place.chain].shape.node {
            self.machine(spec, place);
        }
        if place.level == 0 {
            self.device(spec, place);
        } else if !spec.children.is_empty() {
            self.children(spec, place);
        } else if place.level > self.cells.chains[place.chain].shape.node {
            self.problem(
                format!("{}.cellChildren", place.path),
                "name the machines it consists of",
            );
        } else {
            let cell = (place.chain, place.level, place.cell);
            for (index, leaf) in self.cells.leaves_of(cell.0, cell.1, cell.2).enumerate() {
                self.cells.leaves.device[at(leaf)] = small(index);
            }
        }
    }

    fn children(&mut self, spec: &'a CellSpec, place: &CellPosition) {
        let shape = &self.cells.chains[place.chain].shape;
        let fan = shape.fan(place.level);
        if small(spec.children.len()) != fan {
            let message = format!("has {} cells, must have {fan}", spec.children.len());
            return self.problem(format!("{}.cellChildren", place.path), message);
        }
        for (number, child) in spec.children.iter().enumerate() {
            let place = CellPosition {
                chain: place.chain,
                level: place.level - 1,
                cell: place.cell * fan + small(number),
                path: format!("{}.cellChildren[{number}]", place.path),
            };
            self.physical(child, &place);
        }
    }

    fn pin(&mut self, id: &'a str, place: &CellPosition) {
        let pin = Pin {
            chain: place.chain,
            level: place.level,
            cell: place.cell,
        };
        if self.pins.insert(id, pin).is_some() {
            let message = format!("{id} is the name of another cell already");
            self.problem(format!("{}.pinnedCellId", place.path), message);
        }
    }

    fn machine(&mut self, spec: &CellSpec, place: &CellPosition) {
        let node = self.cells.chains[place.chain].node_base + place.cell;
        spec.address
            .clone_into(&mut self.cells.nodes.name[at(node)]);
        let by_name = &mut self.cells.nodes.by_name;
        by_name.entry(spec.address.clone()).or_default().push(node);
    }

    fn device(&mut self, spec: &CellSpec, place: &CellPosition) {
        let leaf = self.cells.chains[place.chain].leaf_base + place.cell;
        match spec.address.parse() {
            Ok(index) => self.cells.leaves.device[at(leaf)] = index,
            Err(_) => {
                let message = format!("{:?} is no device index; write a number", spec.address);
                self.problem(format!("{}.cellAddress", place.path), message);
            }
        }
    }

    /// Gives leaf cells without a device numbers that no device has. A machine may be described twice, by its
    /// devices and by its cores, and both count from 0.
    fn number_plain(&mut self) {
        let machines: Vec<Vec<u32>> = self.cells.nodes.by_name.values().cloned().collect();
        for nodes in machines {
            let leaves = nodes.iter().map(|node| self.cells.leaves_of_node(*node));
            let with_devices = leaves.filter(|(chain, _)| !self.cells.chains[*chain].is_plain);
            let devices = with_devices.flat_map(|(_, leaves)| leaves);
            let mut used: BTreeSet<u32> = devices
                .map(|leaf| self.cells.leaves.device[at(leaf)])
                .collect();
            for node in nodes {
                let (chain, leaves) = self.cells.leaves_of_node(node);
                for leaf in leaves.filter(|_| self.cells.chains[chain].is_plain) {
                    let device = &mut self.cells.leaves.device[at(leaf)];
                    *device = number_from(*device, &used);
                    used.insert(*device);
                }
            }
        }
    }

    fn no_device_twice(&mut self) {
        let mut twice = Vec::new();
        for (name, nodes) in &self.cells.nodes.by_name {
            let mut devices = BTreeSet::new();
            let mut both = BTreeSet::new();
            for node in nodes {
                let (chain, leaves) = self.cells.leaves_of_node(*node);
                let leaf_type = &self.cells.chains[chain].shape.types[0];
                for leaf in leaves.filter(|_| !is_without_device(self.spec, leaf_type)) {
                    let device = self.cells.leaves.device[at(leaf)];
                    if !devices.insert(device) {
                        both.insert(device);
                    }
                }
            }
            if !both.is_empty() {
                twice.push(twice_text(name, &both));
            }
        }
        for message in twice {
            self.problem("physicalCluster.physicalCells", message);
        }
    }
}

/// Whether leaves of a type are shares of machines without a device.
fn is_without_device(spec: &ClusterSpec, leaf_type: &str) -> bool {
    let sku = spec.sku_types.get(leaf_type);
    leaf_type == PLAIN_LEAF || sku.is_some_and(|sku| sku.gpu == 0)
}

/// The number of a leaf without a device: what the description says, counted from the first that no device has.
fn number_from(said: u32, used: &BTreeSet<u32>) -> u32 {
    let first = match said {
        CPU_LEAF_FIRST.. => said,
        said => CPU_LEAF_FIRST + said,
    };
    let mut free = (first..=u32::MAX).filter(|number| !used.contains(number));
    free.next().unwrap_or(first)
}

/// Devices that are named in one sentence at most.
const NAMED_MAX: usize = 8;

fn twice_text(machine: &str, devices: &BTreeSet<u32>) -> String {
    let named: Vec<String> = devices.iter().take(NAMED_MAX).map(u32::to_string).collect();
    let more = match devices.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "device {}{more} of machine {machine} is there twice: where two cells are on one machine, write the \
         numbers of their devices as cellAddress under cellChildren; leaf cells without one need gpu: 0 in \
         skuTypes",
        named.join(", ")
    )
}
