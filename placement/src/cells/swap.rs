//! Exchanging what two cells of one level are promised to.
//!
//! Cells of a level are isomorphic, so whatever quota cells lie in one move to the same places
//! in the other. Nothing guaranteed may be on either side, so nobody notices.

use super::refresh::clear;
use super::{Cells, CellsError};
use crate::gang::Swap;
use crate::index::{NONE, at, small};

impl Cells {
    /// The quota cells inside a cell, or the one around it.
    pub(crate) fn quotas_in(&self, chain: usize, level: usize, cell: u32) -> Vec<u32> {
        let leaves = self.leaves_of(chain, level, cell);
        let mut found = Vec::new();
        let mut leaf = leaves.start;
        while leaf < leaves.end {
            let quota = self.leaves.quota[at(leaf)];
            if quota == NONE {
                leaf += 1;
            } else {
                found.push(quota);
                leaf = self.bound(&self.quotas[at(quota)]).end;
            }
        }
        found
    }

    /// Whether a cell's promises may move elsewhere.
    pub(crate) fn is_movable(&self, chain: usize, level: usize, cell: u32) -> bool {
        self.held_fast(chain, level, cell).is_none()
    }

    fn held_fast(&self, chain: usize, level: usize, cell: u32) -> Option<&'static str> {
        for quota in self.quotas_in(chain, level, cell) {
            let quota = &self.quotas[at(quota)];
            if quota.level > level {
                return Some("one lies within a larger quota cell");
            }
            if !self.pools[at(quota.pool)].pinned.is_empty() {
                return Some("a pinned cell never moves");
            }
            if quota.guaranteed > 0 {
                return Some("a guaranteed gang is in one");
            }
        }
        // What would come there could not be used.
        let mut leaves = self.leaves_of(chain, level, cell);
        let stays = |leaf| self.leaves.quota[at(leaf)] == NONE && self.is_guaranteed(leaf);
        leaves.any(stays).then_some("a gang that stays is in one")
    }

    pub(crate) fn swap(&mut self, swap: Swap) -> Result<(), CellsError> {
        if let Some(reason) = self.swap_problem(swap) {
            return Err(CellsError::Swap {
                level: swap.level,
                a: swap.a,
                b: swap.b,
                reason,
            });
        }
        let there = self.quotas_in(swap.chain, swap.level, swap.a);
        let back = self.quotas_in(swap.chain, swap.level, swap.b);
        for quota in there.iter().chain(&back) {
            self.leave(*quota);
        }
        let a = self.leaves_of(swap.chain, swap.level, swap.a);
        let b = self.leaves_of(swap.chain, swap.level, swap.b);
        for (a, b) in a.zip(b) {
            self.leaves.quota.swap(at(a), at(b));
            self.touch(a);
            self.touch(b);
        }
        for quota in there {
            self.arrive(quota, swap, swap.a, swap.b);
        }
        for quota in back {
            self.arrive(quota, swap, swap.b, swap.a);
        }
        Ok(())
    }

    pub(crate) fn swap_problem(&self, swap: Swap) -> Option<&'static str> {
        let Some(chain) = self.chains.get(swap.chain) else {
            return Some("there is no such chain");
        };
        if swap.level > chain.shape.top() {
            return Some("there is no such level");
        }
        let count = chain.shape.count(swap.level);
        if swap.a == swap.b || swap.a >= count || swap.b >= count {
            return Some("they are not two cells of the chain");
        }
        if !self.is_one_owners(swap) {
            return Some("others have leaves of one");
        }
        let held = |cell| self.held_fast(swap.chain, swap.level, cell);
        held(swap.a).or_else(|| held(swap.b))
    }

    fn leave(&mut self, quota: u32) {
        let quota = &self.quotas[at(quota)];
        let leaves = self.bound(quota);
        let pool = &mut self.pools[at(quota.pool)];
        let first = leaves.start - self.chains[pool.chain].leaf_base;
        let count = small(leaves.len());
        clear(&mut pool.free, first, count);
        clear(&mut pool.claimable, first, count);
    }

    fn arrive(&mut self, number: u32, swap: Swap, from: u32, to: u32) {
        let sizes = &self.chains[swap.chain].shape.size;
        let quota = &mut self.quotas[at(number)];
        let ratio = sizes[swap.level] / sizes[quota.level];
        quota.cell = quota.cell - from * ratio + to * ratio;
        let away = &mut self.chains[swap.chain].away;
        if quota.cell == quota.home {
            away.remove(&number);
        } else {
            away.insert(number);
        }
        let leaves = self.bound(&self.quotas[at(number)]);
        let bad = leaves.filter(|leaf| !self.usable(*leaf)).count();
        self.quotas[at(number)].bad = small(bad);
    }

    /// Takes unused quota cells back to where they were bound first, so that exchanges leave no
    /// trace once what they were for has ended.
    pub(crate) fn go_home(&mut self, quotas: &[u32]) {
        self.go_home_all(quotas);
        for chain in 0..self.chains.len() {
            if self.chains[chain].guaranteed == 0 && !self.chains[chain].away.is_empty() {
                let mut away: Vec<u32> = self.chains[chain].away.iter().copied().collect();
                away.sort_by_key(|number| std::cmp::Reverse(self.quotas[at(*number)].level));
                self.go_home_all(&away);
            }
        }
    }

    /// One that is home may have been in another's way, so the rest are tried once more.
    fn go_home_all(&mut self, quotas: &[u32]) {
        let mut left = quotas.to_vec();
        loop {
            let before = left.len();
            left.retain(|number| !self.go_home_one(*number));
            if left.is_empty() || left.len() == before {
                return;
            }
        }
    }

    fn go_home_one(&mut self, number: u32) -> bool {
        let Some(swap) = self.way_home(number) else {
            return false;
        };
        let done = self.swap(swap);
        debug_assert!(done.is_ok(), "{done:?}");
        done.is_ok()
    }

    /// The exchange that takes a quota cell back to where it was bound first, if it is elsewhere,
    /// nothing holds either side fast and nobody gets worse hardware.
    pub(crate) fn way_home(&self, number: u32) -> Option<Swap> {
        let quota = &self.quotas[at(number)];
        let swap = Swap {
            chain: self.pools[at(quota.pool)].chain,
            level: quota.level,
            a: quota.cell,
            b: quota.home,
        };
        let is_good = |cell| {
            let mut leaves = self.leaves_of(swap.chain, swap.level, cell);
            leaves.all(|leaf| self.usable(leaf))
        };
        let is_possible = self.swap_problem(swap).is_none();
        (is_possible && is_good(swap.a) && is_good(swap.b)).then_some(swap)
    }
}
