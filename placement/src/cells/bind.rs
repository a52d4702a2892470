//! Binding what is promised to physical cells, the largest cells first.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::cluster_spec::VcSpec;

use super::build::{CellsBuilder, Pin};
use super::{Bins, Chain, Pool, Quota, Vc};
use crate::index::{LeafView, NONE, Shape, ViewFrame, at, small};

impl CellsBuilder<'_> {
    pub(super) fn promises(&mut self) {
        let spec = self.spec;
        for (name, vc) in &spec.virtual_clusters {
            self.cells.vcs.insert(name.to_string(), Vc::default());
            self.pinned(name.as_str(), vc);
        }
        let mut quotas = self.quota_cells();
        // Larger cells first: then smaller ones can never be in the way of a larger one.
        quotas.sort_by_key(|quota| std::cmp::Reverse(quota.level));
        for quota in &mut quotas {
            self.bind_owned(quota);
        }
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
            let is_bound = self.cells.owners.is_none()
                || self.cells.is_owned(vc, (pin.chain, pin.level, pin.cell));
            self.bind(pool, (pin.level, pin.cell), is_bound);
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
        let frame = frame.or_insert_with(|| Arc::new(ViewFrame::new(shape, bin)));
        self.cells.pools.push(Pool {
            vc: vc.to_owned(),
            chain,
            pinned: pinned.to_owned(),
            quotas: Vec::new(),
            promised: 0,
            free: LeafView::new(frame),
            claimable: LeafView::new(frame),
        });
        small(self.cells.pools.len()) - 1
    }

    fn bind(&mut self, pool: u32, (level, cell): (usize, u32), is_bound: bool) {
        let chain = self.cells.pools[at(pool)].chain;
        let quota = small(self.cells.quotas.len());
        for leaf in self.cells.leaves_of(chain, level, cell) {
            self.cells.leaves.quota[at(leaf)] = quota;
        }
        let leaves = self.cells.leaves_of(chain, level, cell);
        self.cells.pools[at(pool)].promised += leaves.len() as u64;
        self.cells.pools[at(pool)].quotas.push(quota);
        self.cells.quotas.push(Quota {
            pool,
            level,
            cell,
            home: cell,
            is_bound,
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

impl CellsBuilder<'_> {
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

    /// Binds as many of the cells as the virtual cluster has leaves for; the others are left.
    fn bind_owned(&mut self, quota: &mut QuotaCells) {
        let Some(number) = self.cells.owner_number(&quota.vc) else {
            return;
        };
        let (chain, level) = (quota.chain, quota.level);
        let pins = self.pins_of(chain);
        let shape = self.cells.chains[chain].shape.clone();
        for cell in 0..shape.count(level) {
            if quota.count == 0 {
                return;
            }
            if self.cells.owner(chain, level, cell) == Some(number)
                && self.is_left(quota, cell, &shape, &pins)
            {
                let pool = self.pool_of(quota);
                self.bind(pool, (level, cell), true);
                quota.count -= 1;
            }
        }
    }

    fn pins_of(&self, chain: usize) -> Vec<Pin> {
        let pins = self.pins.values().copied();
        pins.filter(|pin| pin.chain == chain).collect()
    }

    /// Binds the cells to the first that are left; `next` has where to look from, by level.
    fn bind_some(&mut self, quota: &QuotaCells, next: &mut BTreeMap<(usize, usize), u32>) {
        let pins = self.pins_of(quota.chain);
        let shape = self.cells.chains[quota.chain].shape.clone();
        let mut from = next.get(&(quota.chain, quota.level)).copied().unwrap_or(0);
        let mut bound = 0;
        if quota.count > 0 {
            self.pool_of(quota);
        }
        while bound < quota.count && from < shape.count(quota.level) {
            if self.cells.is_nobodys(quota.chain, quota.level, from)
                && self.is_left(quota, from, &shape, &pins)
            {
                let pool = self.pool_of(quota);
                let is_bound = self.cells.owners.is_none();
                self.bind(pool, (quota.level, from), is_bound);
                bound += 1;
            }
            from += 1;
        }
        next.insert((quota.chain, quota.level), from);
        if bound == quota.count {
            return;
        }
        if self.cells.owners.is_some() {
            // Others have what it is to have, until they give it back.
            let unplaced = &mut self.cells.chains[quota.chain].unplaced;
            *unplaced = (*unplaced).max(Some(quota.level));
            let vc = self.cells.vcs.entry(quota.vc.clone()).or_default();
            vc.unplaced += quota.count - bound;
            let pool = self.pool_of(quota);
            let leaves = u64::from(quota.count - bound) * u64::from(shape.size[quota.level]);
            self.cells.pools[at(pool)].promised += leaves;
        } else {
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
