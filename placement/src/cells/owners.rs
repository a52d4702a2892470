//! Which leaves are bound to which virtual cluster, where that is agreed elsewhere and no planner's own
//! affair: quota cells are on leaves of their own cluster then, and change places among those alone. A
//! quota cell that has none of them yet stands on leaves that are nobody's, and nothing is placed on it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Cells, Mode, Quota, Running};
use crate::gang::{GangId, Leaf, Swap};
use crate::index::{NONE, at, small};

/// Who has which leaves, by machine and device index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    names: Vec<String>,
    /// By machine: the first and the last index, and whose they are.
    spans: BTreeMap<String, Vec<(u32, u32, u32)>>,
}

impl Owners {
    /// A virtual cluster has these leaves of a machine, which nobody else has.
    pub fn add(&mut self, vc: &str, node: &str, first: u32, last: u32) {
        let known = self.names.iter().position(|name| name == vc);
        let name = known.unwrap_or_else(|| {
            self.names.push(vc.to_owned());
            self.names.len() - 1
        });
        let spans = self.spans.entry(node.to_owned()).or_default();
        spans.push((first, last, small(name)));
    }

    /// The number of a virtual cluster; none if it has nothing.
    fn number(&self, vc: &str) -> Option<u32> {
        self.names.iter().position(|name| name == vc).map(small)
    }

    /// The number of whoever has a leaf.
    fn of(&self, node: &str, device: u32) -> u32 {
        let spans = self.spans.get(node).into_iter().flatten();
        let mut around = spans.filter(|(first, last, _)| (*first..=*last).contains(&device));
        around.next().map_or(NONE, |(_, _, owner)| *owner)
    }
}

/// What a virtual cluster is to ask for, and to give back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Cells that are nobody's, each by its leaves: quota cells have none, a bad one, one that somebody's
    /// opportunistic gang is on, or one that is in the way of a larger cell.
    pub claims: Vec<Vec<Leaf>>,
    /// Leaves that no quota cell is on, and no guaranteed gang of its own.
    pub surplus: Vec<Leaf>,
}

/// Idle quota cells that are taken off opportunistic gangs at a time: those may be gone soon.
const SPARED_MAX: usize = 1;

impl Cells {
    /// Says who has which leaves, as cells that are made from now on have it; none: each planner binds
    /// by itself.
    pub(super) fn own(&mut self) {
        let Some(owners) = &self.owners else {
            return;
        };
        for leaf in 0..self.leaf_count() {
            let (node, device) = self.address(leaf);
            self.leaves.owner[at(leaf)] = owners.of(node, device);
        }
    }

    /// Whether all leaves of a cell are of this virtual cluster.
    pub(super) fn is_owned(&self, vc: &str, (chain, level, cell): (usize, usize, u32)) -> bool {
        let number = self.owners.as_ref().and_then(|owners| owners.number(vc));
        number.is_some_and(|number| self.owner(chain, level, cell) == Some(number))
    }

    /// Whether no leaf of a cell is anybody's.
    pub(super) fn is_nobodys(&self, chain: usize, level: usize, cell: u32) -> bool {
        self.owner(chain, level, cell) == Some(NONE)
    }

    /// Who has all leaves of a cell; none if several have.
    fn owner(&self, chain: usize, level: usize, cell: u32) -> Option<u32> {
        let leaves = self.leaves_of(chain, level, cell);
        let first = self.leaves.owner[at(leaves.start)];
        let mut owners = leaves.map(|leaf| self.leaves.owner[at(leaf)]);
        owners.all(|owner| owner == first).then_some(first)
    }

    /// Whether nobody else has anything of what would be exchanged.
    pub(crate) fn is_one_owners(&self, swap: Swap) -> bool {
        let [a, b] = [swap.a, swap.b].map(|cell| self.owner(swap.chain, swap.level, cell));
        self.owners.is_none() || a.is_some() && a == b
    }

    /// Takes a virtual cluster's unused quota cells off leaves that are bad, that somebody is on, or that
    /// are in the way of a larger cell, as far as it has others.
    pub fn settle_in(&mut self, vc: &str) {
        if self.owners.is_none() {
            return;
        }
        for number in self.own_quotas(vc) {
            let swap = self.better(vc, &self.quotas[at(number)]);
            if let Some(swap) = swap {
                let _possible = self.swap(swap);
            }
        }
        self.refresh();
    }

    /// What a virtual cluster wants of those who bind. Nothing where each planner binds by itself.
    pub fn wants(&self, vc: &str) -> Wants {
        let mut wants = Wants::default();
        if self.owners.is_none() {
            return wants;
        }
        let mut spared = 0;
        let mut asked = BTreeSet::new();
        for number in self.own_quotas(vc) {
            let quota = &self.quotas[at(number)];
            let is_allowed = quota.bad > 0 || spared < SPARED_MAX;
            let cell = match quota.is_bound {
                true if is_allowed => self.elsewhere(quota, &asked),
                true => None,
                false => Some(self.bound(quota)).filter(|leaves| !self.is_in_use(vc, leaves)),
            };
            if let Some(leaves) = cell {
                spared += usize::from(quota.is_bound && quota.bad == 0);
                asked.extend(leaves.clone());
                wants.claims.push(leaves.collect());
            }
        }
        wants.surplus = self.surplus(vc);
        wants
    }

    /// The gangs of a virtual cluster that have lost their promise and are on cells of a kind that one of
    /// these others was promised and has not got.
    pub fn in_the_way(&self, vc: &str, others: &[&str]) -> Vec<GangId> {
        let unbound = self.quotas.iter().filter(|quota| !quota.is_bound);
        let pools = unbound.map(|quota| &self.pools[at(quota.pool)]);
        let pools = pools.filter(|pool| others.contains(&&*pool.vc));
        let mut chains: BTreeSet<usize> = pools.map(|pool| pool.chain).collect();
        let is_short = |name: &&&str| self.vcs.get(**name).is_some_and(|vc| vc.unplaced > 0);
        if others.iter().any(|name| is_short(&name)) {
            let all = self.chains.iter().enumerate();
            let short = all.filter(|(_, chain)| chain.unplaced.is_some());
            chains.extend(short.map(|(number, _)| number));
        }
        let is_lost = |running: &&Running| {
            let gang = &running.gang;
            let lost = running.mode == Mode::Opportunistic && !gang.is_opportunistic();
            let mut leaves = running.placement.leaves();
            lost && gang.vc == vc && leaves.any(|leaf| chains.contains(&self.chain_of(leaf)))
        };
        let lost = self.gangs.all().filter(is_lost);
        lost.map(|running| running.gang.id).collect()
    }

    /// Whether the quota cell on a leaf is bound to it.
    pub fn is_bound(&self, leaf: Leaf) -> bool {
        self.quota_of(leaf).is_some_and(|quota| quota.is_bound)
    }

    /// As if every quota cell were bound to where it stands.
    pub(crate) fn bind_all(&mut self) {
        for quota in &mut self.quotas {
            quota.is_bound = true;
        }
        self.touch_everything();
        self.refresh();
    }

    /// How many quota cells a virtual cluster has no leaves for.
    pub fn unbound(&self, vc: &str) -> usize {
        let pools = self.vcs.get(vc).into_iter().flat_map(|vc| &vc.pools);
        let quotas = pools.flat_map(|pool| &self.pools[at(*pool)].quotas);
        let unbound = quotas.filter(|quota| !self.quotas[at(**quota)].is_bound);
        unbound.count() + self.vcs.get(vc).map_or(0, |vc| at(vc.unplaced))
    }

    /// The virtual cluster's quota cells that no guaranteed gang is in and that are not pinned.
    fn own_quotas(&self, vc: &str) -> Vec<u32> {
        let pools = self.vcs.get(vc).into_iter().flat_map(|vc| &vc.pools);
        let quotas = pools.flat_map(|pool| self.pools[at(*pool)].quotas.iter().copied());
        let is_open = |number: &u32| {
            let quota = &self.quotas[at(*number)];
            quota.guaranteed == 0 || !quota.is_bound
        };
        quotas.filter(is_open).collect()
    }

    /// Where a quota cell would be better off that is bad, that somebody is on, or that is in the way of
    /// a larger one.
    fn elsewhere(&self, quota: &Quota, asked: &BTreeSet<Leaf>) -> Option<Range<Leaf>> {
        if self.is_troubled(quota) {
            return self.idle_elsewhere(quota, asked, |_| true);
        }
        self.larger_than(quota)?;
        self.idle_elsewhere(quota, asked, |cell| self.makes_room(quota, cell))
    }

    /// The level of a larger cell of its chain that has no place.
    fn larger_than(&self, quota: &Quota) -> Option<usize> {
        let unplaced = self.chains[self.pools[at(quota.pool)].chain].unplaced;
        unplaced.filter(|level| *level > quota.level)
    }

    /// Whether it makes room for a larger cell that has no place if a quota cell goes to another cell. All
    /// go together: to where the largest is, for it finds a place least easily, then to where most are,
    /// then to the first. Each step makes some such place fuller and none before it emptier, so that it
    /// comes to an end, whoever takes the steps.
    fn makes_room(&self, quota: &Quota, cell: u32) -> bool {
        let chain = self.pools[at(quota.pool)].chain;
        let sizes = &self.chains[chain].shape.size;
        let Some(level) = self.larger_than(quota) else {
            return false;
        };
        let ratio = sizes[level] / sizes[quota.level];
        let (here, there) = (quota.cell / ratio, cell / ratio);
        let moves = self.leaves_of(chain, quota.level, cell);
        let is_taken = |leaf: &Leaf| {
            // What somebody has too much of is given back.
            let is_kept = self.leaves.quota[at(*leaf)] != NONE;
            self.leaves.owner[at(*leaf)] != NONE && is_kept && !moves.contains(leaf)
        };
        let order = |cell: u32| {
            let taken = || self.leaves_of(chain, level, cell).filter(is_taken);
            let levels = taken().filter_map(|leaf| Some(self.quota_of(leaf)?.level));
            (levels.max(), taken().count(), std::cmp::Reverse(cell))
        };
        here != there && order(there) > order(here)
    }

    /// Whether a cell is bad, or somebody is on it.
    fn is_troubled(&self, quota: &Quota) -> bool {
        quota.bad > 0 || self.bound(quota).any(|leaf| !self.is_unused(leaf))
    }

    /// Whether a guaranteed gang of another virtual cluster is in the way.
    fn is_in_use(&self, vc: &str, leaves: &Range<Leaf>) -> bool {
        let is_others = |leaf: Leaf| {
            let holder = self.holder(leaf);
            self.is_guaranteed(leaf) && holder.is_none_or(|running| running.gang.vc != vc)
        };
        leaves.clone().any(is_others)
    }

    fn better(&self, vc: &str, quota: &Quota) -> Option<Swap> {
        if !quota.is_bound {
            return None;
        }
        let is_troubled = self.is_troubled(quota);
        if !is_troubled && self.larger_than(quota).is_none() {
            return None;
        }
        let (chain, level) = (self.pools[at(quota.pool)].chain, quota.level);
        let is_free = |cell: &u32| {
            let mut leaves = self.leaves_of(chain, level, *cell);
            let is_spare = |leaf| self.leaves.quota[at(leaf)] == NONE && !self.is_guaranteed(leaf);
            let is_gain = |leaf| self.usable(leaf) && (quota.bad > 0 || self.is_unused(leaf));
            self.is_owned(vc, (chain, level, *cell))
                && (is_troubled || self.makes_room(quota, *cell))
                && leaves.all(|leaf| is_spare(leaf) && is_gain(leaf))
        };
        let mut cells = 0..self.chains[chain].shape.count(level);
        let swap = |b| Swap {
            chain,
            level,
            a: quota.cell,
            b,
        };
        cells.find(is_free).map(swap)
    }

    /// A good cell that nobody has or uses, other than those that are asked for already.
    fn idle_elsewhere(
        &self,
        quota: &Quota,
        asked: &BTreeSet<Leaf>,
        suits: impl Fn(u32) -> bool,
    ) -> Option<Range<Leaf>> {
        let (chain, level) = (self.pools[at(quota.pool)].chain, quota.level);
        let cells = 0..self.chains[chain].shape.count(level);
        let is_idle = |leaf: Leaf| {
            self.usable(leaf) && self.is_unused(leaf) && self.leaves.quota[at(leaf)] == NONE
        };
        let mut free = cells.filter(|cell| {
            let mut leaves = self.leaves_of(chain, level, *cell);
            self.is_nobodys(chain, level, *cell) && leaves.all(is_idle) && suits(*cell)
        });
        let is_asked = |cell: &u32| {
            let leaves = self.leaves_of(chain, level, *cell);
            asked.range(leaves).next().is_some()
        };
        let cell = free.find(|cell| !is_asked(cell))?;
        Some(self.leaves_of(chain, level, cell))
    }

    fn surplus(&self, vc: &str) -> Vec<Leaf> {
        let number = self.owners.as_ref().and_then(|owners| owners.number(vc));
        let Some(number) = number else {
            return Vec::new();
        };
        let is_left = |leaf: &Leaf| {
            self.leaves.owner[at(*leaf)] == number
                && self.leaves.quota[at(*leaf)] == NONE
                && !self.is_guaranteed(*leaf)
        };
        (0..self.leaf_count()).filter(is_left).collect()
    }
}
