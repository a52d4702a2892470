//! The cells that a virtual cluster is promised, as people look at them.

use std::ops::Range;

use muster_model::vc_cells::{
    CellLeaf, CellLevel, CellPool, LISTED_LEAVES_MAX, LeafState, PromisedCell,
};

use super::{Cells, Pool, Quota};
use crate::gang::Leaf;
use crate::index::{at, small};

impl Cells {
    /// The cells that a virtual cluster is promised, by hardware, those that are pinned last. Without the places
    /// for tasks that need no device: those are no share of a machine.
    pub fn promised_cells(&self, vc: &str) -> Vec<CellPool> {
        let Some(vc) = self.vcs.get(vc) else {
            return Vec::new();
        };
        let mut left = LISTED_LEAVES_MAX;
        let pools = vc.pools.iter().chain(vc.pinned.values());
        let pools = pools.map(|pool| &self.pools[at(*pool)]);
        let shown =
            pools.filter(|pool| !pool.quotas.is_empty() && !self.chains[pool.chain].is_plain);
        shown.map(|pool| self.pool_tree(pool, &mut left)).collect()
    }

    /// Whether the leaf is a place for a task that needs no device.
    pub fn is_plain(&self, leaf: Leaf) -> bool {
        self.chains[self.chain_of(leaf)].is_plain
    }

    /// What is with a leaf that a virtual cluster is promised.
    fn leaf_state(&self, leaf: Leaf, vc: &str) -> LeafState {
        if !self.is_usable(leaf) {
            LeafState::Bad
        } else if self.is_held_by(leaf, vc) {
            LeafState::Used
        } else if self.is_unused(leaf) {
            LeafState::Free
        } else {
            LeafState::Lent
        }
    }

    /// `left`: how many leaves may still be listed.
    fn pool_tree(&self, pool: &Pool, left: &mut usize) -> CellPool {
        let quotas = || pool.quotas.iter().map(|quota| &self.quotas[at(*quota)]);
        let top = quotas().map(|quota| quota.level).max();
        let levels = top.into_iter().flat_map(|top| (0..=top).rev());
        let levels = levels.map(|level| self.level_of(pool, level));
        let size = |quota: &Quota| at(self.chains[pool.chain].shape.size[quota.level]);
        let mut cells = Vec::new();
        for quota in quotas() {
            let Some(rest) = left.checked_sub(size(quota)) else {
                break;
            };
            *left = rest;
            cells.push(self.cell_tree(pool, (quota.level, quota.cell)));
        }
        let shape = &self.chains[pool.chain].shape;
        CellPool {
            chain: shape.types[shape.top()].clone(),
            pinned: Some(pool.pinned.clone()).filter(|name| !name.is_empty()),
            levels: levels.collect(),
            unlisted: small(pool.quotas.len() - cells.len()),
            cells,
        }
    }

    fn level_of(&self, pool: &Pool, level: usize) -> CellLevel {
        let shape = &self.chains[pool.chain].shape;
        let mut found = CellLevel {
            cell_type: shape.types[level].clone(),
            total: 0,
            used: 0,
            free: 0,
            bad: 0,
            lent: 0,
        };
        let quotas = pool.quotas.iter().map(|quota| &self.quotas[at(*quota)]);
        let cells = quotas
            .filter(|quota| quota.level >= level)
            .flat_map(|quota| {
                let ratio = shape.size[quota.level] / shape.size[level];
                quota.cell * ratio..(quota.cell + 1) * ratio
            });
        for cell in cells {
            let states = self.states(pool, self.leaves_of(pool.chain, level, cell));
            let has = |state| states.contains(&state);
            found.total += 1;
            found.used += u32::from(has(LeafState::Used));
            found.bad += u32::from(has(LeafState::Bad));
            found.lent += u32::from(has(LeafState::Lent));
            found.free += u32::from(states.iter().all(|it| *it == LeafState::Free));
        }
        found
    }

    fn states(&self, pool: &Pool, leaves: Range<Leaf>) -> Vec<LeafState> {
        leaves.map(|leaf| self.leaf_state(leaf, &pool.vc)).collect()
    }

    /// A cell with its parts, down to those whose parts are leaves.
    fn cell_tree(&self, pool: &Pool, (level, cell): (usize, u32)) -> PromisedCell {
        let shape = &self.chains[pool.chain].shape;
        let leaves = self.leaves_of(pool.chain, level, cell);
        let node = (level <= shape.node).then(|| self.address(leaves.start).0.to_owned());
        let (mut parts, mut own) = (Vec::new(), Vec::new());
        if level > 1 {
            let fan = shape.fan(level);
            let inside = cell * fan..(cell + 1) * fan;
            parts.extend(inside.map(|part| self.cell_tree(pool, (level - 1, part))));
        } else {
            own.extend(leaves.map(|leaf| CellLeaf {
                index: self.address(leaf).1,
                state: self.leaf_state(leaf, &pool.vc),
            }));
        }
        PromisedCell {
            cell_type: shape.types[level].clone(),
            node,
            parts,
            leaves: own,
        }
    }
}
