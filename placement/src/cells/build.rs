//! Cells from a description: numbers for everything, then every quota cell bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_model::cluster_spec::{CellSpec, ClusterSpec, LEAVES_MAX, SpecProblem, VcSpec};

use super::{Bins, Cells, Chain, Dirty, Gangs, Leaves, Nodes, Pool, Quota, Vc};
use crate::index::{BIN_LEAVES_MAX, Frame, NONE, Shape, View, at, small};

/// A pinned cell of the description.
#[derive(Clone, Copy, Debug)]
struct Pin {
    chain: usize,
    level: usize,
    cell: u32,
}

/// What is being built, and what is wrong with it so far.
struct Build<'a> {
    spec: &'a ClusterSpec,
    cells: Cells,
    pins: BTreeMap<&'a str, Pin>,
    frames: BTreeMap<(usize, usize), Arc<Frame>>,
    problems: Vec<SpecProblem>,
}

/// Where a physical cell of the description stands.
struct Place {
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
        let cells = Self {
            bins,
            chains: Vec::new(),
            leaves: Leaves::default(),
            nodes: Nodes::default(),
            quotas: Vec::new(),
            pools: Vec::new(),
            vcs: BTreeMap::new(),
            gangs: Gangs::default(),
            dirty: Dirty::default(),
        };
        let mut build = Build {
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

impl<'a> Build<'a> {
    fn problem(&mut self, path: impl Into<String>, message: impl Into<String>) {
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
            node: 0,
            tops,
        };
        for name in types.iter().rev().skip(1) {
            let Some(kind) = self.spec.cell_types.get(*name) else {
                continue;
            };
            let size = shape.size[shape.top()].checked_mul(kind.count.max(1));
            let size = size.filter(|size| *size <= LEAVES_MAX);
            shape.size.push(size.ok_or("has too many devices")?);
            shape.types.push((*name).to_owned());
            if kind.node_level && shape.node > 0 {
                return Err(format!(
                    "has two types with isNodeLevel: true, {name} is one"
                ));
            }
            if kind.node_level {
                shape.node = shape.top();
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
        let before = u64::from(self.cells.leaf_count());
        let all = u64::from(shape.size[shape.top()]) * u64::from(tops) + before;
        if all > u64::from(LEAVES_MAX) {
            return Err(format!("more than {LEAVES_MAX} devices in all"));
        }
        Ok(shape)
    }

    fn chain(&mut self, shape: &Shape) {
        let cells = &mut self.cells;
        let frame = Arc::new(Frame::new(shape, shape.node));
        self.frames
            .insert((cells.chains.len(), shape.node), Arc::clone(&frame));
        cells.chains.push(Chain {
            leaf_base: cells.leaf_count(),
            node_base: small(cells.nodes.name.len()),
            quiet: View::new(&frame),
            free: View::new(&frame),
            bad: 0,
            guaranteed: 0,
            away: BTreeSet::new(),
            shape: shape.clone(),
        });
        let leaves = cells.leaves.holder.len() + at(shape.leaves());
        cells.leaves.holder.resize(leaves, NONE);
        cells.leaves.claim.resize(leaves, NONE);
        cells.leaves.quota.resize(leaves, NONE);
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
            let place = Place {
                chain,
                level: self.cells.chains[chain].shape.top(),
                cell: seen[chain],
                path: format!("physicalCluster.physicalCells[{number}]"),
            };
            seen[chain] += 1;
            self.physical(cell, &place);
        }
        if self.problems.is_empty() {
            self.no_device_twice();
        }
    }

    fn physical(&mut self, spec: &'a CellSpec, place: &Place) {
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

    fn children(&mut self, spec: &'a CellSpec, place: &Place) {
        let shape = &self.cells.chains[place.chain].shape;
        let fan = shape.fan(place.level);
        if small(spec.children.len()) != fan {
            let message = format!("has {} cells, must have {fan}", spec.children.len());
            return self.problem(format!("{}.cellChildren", place.path), message);
        }
        for (number, child) in spec.children.iter().enumerate() {
            let place = Place {
                chain: place.chain,
                level: place.level - 1,
                cell: place.cell * fan + small(number),
                path: format!("{}.cellChildren[{number}]", place.path),
            };
            self.physical(child, &place);
        }
    }

    fn pin(&mut self, id: &'a str, place: &Place) {
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

    fn machine(&mut self, spec: &CellSpec, place: &Place) {
        let node = self.cells.chains[place.chain].node_base + place.cell;
        spec.address
            .clone_into(&mut self.cells.nodes.name[at(node)]);
        let by_name = &mut self.cells.nodes.by_name;
        by_name.entry(spec.address.clone()).or_default().push(node);
    }

    fn device(&mut self, spec: &CellSpec, place: &Place) {
        let leaf = self.cells.chains[place.chain].leaf_base + place.cell;
        match spec.address.parse() {
            Ok(index) => self.cells.leaves.device[at(leaf)] = index,
            Err(_) => {
                let message = format!("{:?} is no device index; write a number", spec.address);
                self.problem(format!("{}.cellAddress", place.path), message);
            }
        }
    }

    fn no_device_twice(&mut self) {
        let mut twice = Vec::new();
        for (name, nodes) in &self.cells.nodes.by_name {
            let mut devices = BTreeSet::new();
            for node in nodes {
                for leaf in self.cells.leaves_of_node(*node).1 {
                    let device = self.cells.leaves.device[at(leaf)];
                    if !devices.insert(device) {
                        twice.push(format!("device {device} of machine {name} is there twice"));
                    }
                }
            }
        }
        for message in twice {
            self.problem("physicalCluster.physicalCells", message);
        }
    }

    fn promises(&mut self) {
        let spec = self.spec;
        for (name, vc) in &spec.virtual_clusters {
            self.cells.vcs.insert(name.to_string(), Vc::default());
            self.pinned(name.as_str(), vc);
        }
        let mut quotas = self.quota_cells();
        // Larger cells first: then smaller ones can never be in the way of a larger one.
        quotas.sort_by_key(|quota| std::cmp::Reverse(quota.level));
        let mut next = BTreeMap::new();
        for quota in quotas {
            self.bind_some(&quota, &mut next);
        }
        for vc in self.cells.vcs.values_mut() {
            vc.pools
                .sort_by_key(|pool| self.cells.pools[at(*pool)].chain);
        }
    }

    fn pinned(&mut self, vc: &str, spec: &VcSpec) {
        for (number, id) in spec.pinned.iter().enumerate() {
            let path = format!("virtualClusters.{vc}.pinnedCells[{number}].pinnedCellId");
            let Some(pin) = self.pins.get(&**id).copied() else {
                self.problem(path, format!("no physical cell is pinned as {id:?}"));
                continue;
            };
            let leaves = self.cells.leaves_of(pin.chain, pin.level, pin.cell);
            if leaves
                .clone()
                .any(|leaf| self.cells.leaves.quota[at(leaf)] != NONE)
            {
                self.problem(path, format!("{id} is promised already, wholly or in part"));
                continue;
            }
            let pool = self.pool(vc, pin.chain, pin.level, id);
            self.bind(pool, pin.level, pin.cell);
            let vc = self.cells.vcs.entry(vc.to_owned()).or_default();
            vc.pinned.insert(id.clone(), pool);
        }
    }

    fn pool(&mut self, vc: &str, chain: usize, level: usize, pinned: &str) -> u32 {
        let node = self.cells.chains[chain].shape.node;
        let bin = match self.cells.bins {
            Bins::Merged => node,
            Bins::PerQuotaCell => level.min(node),
        };
        let same = |pool: &Pool| {
            pool.vc == vc
                && pool.chain == chain
                && pool.pinned == pinned
                && pool.free.frame.bin == bin
        };
        if let Some(known) = self.cells.pools.iter().position(same) {
            return small(known);
        }
        let shape = &self.cells.chains[chain].shape;
        let frame = self.frames.entry((chain, bin));
        let frame = frame.or_insert_with(|| Arc::new(Frame::new(shape, bin)));
        self.cells.pools.push(Pool {
            vc: vc.to_owned(),
            chain,
            pinned: pinned.to_owned(),
            quotas: Vec::new(),
            free: View::new(frame),
            claimable: View::new(frame),
        });
        small(self.cells.pools.len()) - 1
    }

    fn bind(&mut self, pool: u32, level: usize, cell: u32) {
        let chain = self.cells.pools[at(pool)].chain;
        let quota = small(self.cells.quotas.len());
        for leaf in self.cells.leaves_of(chain, level, cell) {
            self.cells.leaves.quota[at(leaf)] = quota;
        }
        self.cells.pools[at(pool)].quotas.push(quota);
        self.cells.quotas.push(Quota {
            pool,
            level,
            cell,
            home: cell,
            guaranteed: 0,
            bad: 0,
        });
    }
}

/// A number of cells of one level that a virtual cluster is promised.
struct QuotaCells {
    vc: String,
    chain: usize,
    level: usize,
    count: u32,
    path: String,
}

impl Build<'_> {
    fn quota_cells(&mut self) -> Vec<QuotaCells> {
        let spec = self.spec;
        let mut all = Vec::new();
        for (name, vc) in &spec.virtual_clusters {
            for (number, quota) in vc.quota.iter().enumerate() {
                let path = format!("virtualClusters.{name}.virtualCells[{number}]");
                match self.find_type(&quota.path) {
                    Ok((chain, level)) => all.push(QuotaCells {
                        vc: name.to_string(),
                        chain,
                        level,
                        count: quota.count,
                        path,
                    }),
                    Err(message) => self.problem(format!("{path}.cellType"), message),
                }
            }
        }
        all
    }

    fn find_type(&self, path: &[String]) -> Result<(usize, usize), String> {
        let top = path.first().map_or("", |top| top);
        let mut chains = self.cells.chains.iter();
        let is_top = |chain: &Chain| chain.shape.types.last().is_some_and(|name| name == top);
        let Some(chain) = chains.position(is_top) else {
            return Err(format!("no physical cell is of type {top:?}"));
        };
        let types = &self.cells.chains[chain].shape.types;
        let down = types.iter().rev();
        if path.len() > types.len() || path.iter().zip(down).any(|(a, b)| a != b) {
            let down: Vec<&str> = types.iter().rev().map(|name| &**name).collect();
            return Err(format!(
                "{:?} is no path of types; they run {}",
                path.join("."),
                down.join(".")
            ));
        }
        Ok((chain, types.len() - path.len()))
    }

    /// Binds the cells to the first that are left; `next` has where to look from, by level.
    fn bind_some(&mut self, quota: &QuotaCells, next: &mut BTreeMap<(usize, usize), u32>) {
        let pins: Vec<Pin> = self.pins.values().copied().collect();
        let pins: Vec<Pin> = pins
            .into_iter()
            .filter(|pin| pin.chain == quota.chain)
            .collect();
        let shape = self.cells.chains[quota.chain].shape.clone();
        let mut from = next.get(&(quota.chain, quota.level)).copied().unwrap_or(0);
        let mut bound = 0;
        if quota.count > 0 {
            self.pool_of(quota);
        }
        while bound < quota.count && from < shape.count(quota.level) {
            if self.is_left(quota, from, &shape, &pins) {
                let pool = self.pool_of(quota);
                self.bind(pool, quota.level, from);
                bound += 1;
            }
            from += 1;
        }
        next.insert((quota.chain, quota.level), from);
        if bound < quota.count {
            let message = format!(
                "{} asks for {} cells of type {}, but only {bound} are left; promise less",
                quota.vc, quota.count, shape.types[quota.level]
            );
            self.problem(format!("{}.cellNumber", quota.path), message);
        }
    }

    fn pool_of(&mut self, quota: &QuotaCells) -> u32 {
        let pool = self.pool(&quota.vc, quota.chain, quota.level, "");
        let vc = self.cells.vcs.entry(quota.vc.clone()).or_default();
        if !vc.pools.contains(&pool) {
            vc.pools.push(pool);
        }
        pool
    }

    /// Whether nothing of a cell is promised. Larger cells were bound before, so one leaf tells;
    /// only a promised pinned cell can lie inside.
    fn is_left(&self, quota: &QuotaCells, cell: u32, shape: &Shape, pins: &[Pin]) -> bool {
        let leaves = self.cells.leaves_of(quota.chain, quota.level, cell);
        let quota_of = |leaf: u32| self.cells.leaves.quota[at(leaf)];
        let inside = |pin: &Pin| {
            let size = shape.size[pin.level];
            pin.level < quota.level && pin.cell * size / shape.size[quota.level] == cell
        };
        let promised = |pin: &Pin| {
            quota_of(self.cells.leaves_of(pin.chain, pin.level, pin.cell).start) != NONE
        };
        quota_of(leaves.start) == NONE && !pins.iter().any(|pin| inside(pin) && promised(pin))
    }
}
