//! Which leaves are bound to which virtual cluster, where that is agreed elsewhere and no planner's own
//! affair: quota cells are on leaves of their own cluster then, and change places among those alone. A
//! quota cell that has none of them yet stands on leaves that are nobody's, and nothing is placed on it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use muster_model::cluster_spec::ABSENT;

use super::{AllocationMode, Cells, PlacedGang, Pool, Quota};
use crate::gang::{GangNumber, Leaf, Swap};
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

/// What was found while looking for cells.
#[derive(Default)]
struct OwnerSearch {
    /// Leaves of cells that are asked for.
    asked: BTreeSet<Leaf>,
    /// Chains and levels without an idle cell.
    none: BTreeSet<(usize, usize)>,
}

fn is_lost(running: &PlacedGang, vc: &str) -> bool {
    let gang = &running.gang;
    running.mode == AllocationMode::Opportunistic && !gang.is_opportunistic() && gang.vc == vc
}

/// Idle quota cells that are taken off opportunistic gangs at a time: those may be gone soon.
const SPARED_MAX: usize = 1;

impl Cells {
    /// Notes of each leaf whose it is.
    pub(super) fn own(&mut self) {
        let Some(owners) = &self.owners else {
            return;
        };
        for leaf in 0..self.leaf_count() {
            let (node, device) = self.address(leaf);
            self.leaves.owner[at(leaf)] = owners.of(node, device);
        }
    }

    /// The number of a virtual cluster among the owners; none if it has nothing.
    pub(super) fn owner_number(&self, vc: &str) -> Option<u32> {
        self.owners.as_ref()?.number(vc)
    }

    /// Whether all leaves of a cell are of this virtual cluster.
    pub(super) fn is_owned(&self, vc: &str, (chain, level, cell): (usize, usize, u32)) -> bool {
        let number = self.owner_number(vc);
        number.is_some() && self.owner(chain, level, cell) == number
    }

    /// Whether no leaf of a cell is anybody's.
    pub(super) fn is_nobodys(&self, chain: usize, level: usize, cell: u32) -> bool {
        self.owner(chain, level, cell) == Some(NONE)
    }

    /// Who has all leaves of a cell; none if several have.
    pub(super) fn owner(&self, chain: usize, level: usize, cell: u32) -> Option<u32> {
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
        let surplus = self.surplus(vc);
        let mut spare: BTreeSet<Leaf> = surplus.into_iter().collect();
        for number in self.own_quotas(vc) {
            let swap = self.better(&self.quotas[at(number)], &spare);
            if let Some(swap) = swap.filter(|swap| self.swap(*swap).is_ok()) {
                let gained = self.leaves_of(swap.chain, swap.level, swap.b);
                spare.retain(|leaf| !gained.contains(leaf));
                spare.extend(self.leaves_of(swap.chain, swap.level, swap.a));
            }
        }
        self.refresh();
    }

    /// What a virtual cluster wants of those who bind. Nothing where each planner binds by itself. `spares`:
    /// whether opportunistic gangs are to be made room for.
    pub fn wants(&self, vc: &str, spares: bool) -> Wants {
        let mut wants = Wants::default();
        if self.owners.is_none() {
            return wants;
        }
        let mut spared = if spares { 0 } else { SPARED_MAX };
        let mut search = OwnerSearch::default();
        for number in self.own_quotas(vc) {
            let quota = &self.quotas[at(number)];
            let is_lent = quota.bad == 0 && self.is_troubled(quota);
            let cell = match quota.is_bound {
                true if is_lent && spared >= SPARED_MAX => None,
                true => self.elsewhere(quota, &mut search),
                false => self.first_place(vc, quota, &mut search),
            };
            if let Some(leaves) = cell {
                spared += usize::from(quota.is_bound && is_lent);
                search.asked.extend(leaves.clone());
                wants.claims.push(leaves.collect());
            }
        }
        wants.surplus = self.surplus(vc);
        wants
    }

    /// The gangs of a virtual cluster that have lost their promise and are on cells that one of these others
    /// was promised: as many as it takes, the least important first.
    pub fn in_the_way(&self, vc: &str, others: &[&str]) -> Vec<GangNumber> {
        let pools = others.iter().flat_map(|other| self.pools_of(other));
        let mut lacking: BTreeMap<usize, u64> = BTreeMap::new();
        for pool in pools {
            *lacking.entry(pool.chain).or_default() += self.lacks(pool);
        }
        let mut lost: Vec<&PlacedGang> = self.gangs.all().filter(|it| is_lost(it, vc)).collect();
        lost.sort_by_key(|running| (running.gang.priority, std::cmp::Reverse(running.seq)));
        let mut all = Vec::new();
        for running in lost {
            let leaves = running.placement.leaves();
            let theirs = leaves.filter(|leaf| !self.is_promised_to(*leaf, vc));
            let mut is_needed = false;
            for leaf in theirs {
                let left = lacking.entry(self.chain_of(leaf)).or_default();
                is_needed |= *left > 0 || others.iter().any(|it| self.is_promised_to(leaf, it));
                *left = left.saturating_sub(1);
            }
            if is_needed {
                all.push(running.gang.id);
            }
        }
        all
    }

    /// Whether gangs of a virtual cluster have lost their promise and go on as long as nobody waits.
    pub fn has_lost(&self, vc: &str) -> bool {
        self.gangs.all().any(|running| is_lost(running, vc))
    }

    /// Leaves that a pool is promised and not bound to, but for those of missing machines.
    pub(crate) fn lacks(&self, pool: &Pool) -> u64 {
        let quotas = pool.quotas.iter().map(|quota| &self.quotas[at(*quota)]);
        let has = quotas.filter(|quota| {
            let first = self.bound(quota).start;
            quota.is_bound || self.address(first).0.starts_with(ABSENT)
        });
        let has: u64 = has.map(|quota| self.bound(quota).len() as u64).sum();
        pool.promised.saturating_sub(has)
    }

    /// Whether a cell that a virtual cluster is bound to is in use by somebody who stays there.
    pub fn is_occupied(&self, vc: &str) -> bool {
        let quotas = self.pools_of(vc).flat_map(|pool| &pool.quotas);
        let mut bound = quotas.map(|quota| self.bound(&self.quotas[at(*quota)]));
        bound.any(|leaves| self.is_in_use(vc, &leaves))
    }

    fn is_promised_to(&self, leaf: Leaf, vc: &str) -> bool {
        let quota = self.quota_of(leaf);
        quota.is_some_and(|quota| self.pools[at(quota.pool)].vc == vc)
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
        let quotas = self.pools_of(vc).flat_map(|pool| &pool.quotas);
        let unbound = quotas.filter(|quota| !self.quotas[at(**quota)].is_bound);
        unbound.count() + self.vcs.get(vc).map_or(0, |vc| at(vc.unplaced))
    }

    fn pools_of(&self, vc: &str) -> impl Iterator<Item = &Pool> {
        let vc = self.vcs.get(vc).into_iter();
        let pools = vc.flat_map(|vc| vc.pools.iter().chain(vc.pinned.values()));
        pools.map(|pool| &self.pools[at(*pool)])
    }

    /// The virtual cluster's quota cells that are not bound yet, or that no guaranteed gang is in.
    fn own_quotas(&self, vc: &str) -> Vec<u32> {
        let quotas = self
            .pools_of(vc)
            .flat_map(|pool| pool.quotas.iter().copied());
        let is_open = |number: &u32| {
            let quota = &self.quotas[at(*number)];
            quota.guaranteed == 0 || !quota.is_bound
        };
        quotas.filter(is_open).collect()
    }

    /// Where a quota cell would be better off that is bad, that somebody is on, or that is in the way of
    /// a larger one.
    fn elsewhere(&self, quota: &Quota, search: &mut OwnerSearch) -> Option<Range<Leaf>> {
        if self.is_pinned(quota) {
            return None;
        }
        if self.is_troubled(quota) {
            return self.any_idle(quota, search);
        }
        self.larger_than(quota)?;
        self.idle_elsewhere(quota, &search.asked, |cell| self.makes_room(quota, cell))
    }

    /// Where a quota cell stands that is not bound yet, or another place if that is not to be had.
    fn first_place(
        &self,
        vc: &str,
        quota: &Quota,
        search: &mut OwnerSearch,
    ) -> Option<Range<Leaf>> {
        let stands = self.bound(quota);
        if !self.is_in_use(vc, &stands) {
            return Some(stands);
        }
        let is_own = stands.into_iter().any(|leaf| self.is_held_by(leaf, vc));
        match self.is_pinned(quota) || is_own {
            true => None,
            false => self.any_idle(quota, search),
        }
    }

    /// Any idle cell for a quota cell; where there was none once there is none for the next either.
    fn any_idle(&self, quota: &Quota, search: &mut OwnerSearch) -> Option<Range<Leaf>> {
        let level = (self.pools[at(quota.pool)].chain, quota.level);
        if search.none.contains(&level) {
            return None;
        }
        let found = self.idle_elsewhere(quota, &search.asked, |_| true);
        if found.is_none() {
            search.none.insert(level);
        }
        found
    }

    fn is_pinned(&self, quota: &Quota) -> bool {
        !self.pools[at(quota.pool)].pinned.is_empty()
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

    fn better(&self, quota: &Quota, spare: &BTreeSet<Leaf>) -> Option<Swap> {
        let is_troubled = self.is_troubled(quota);
        let may_move = quota.is_bound && !self.is_pinned(quota);
        if !may_move || !is_troubled && self.larger_than(quota).is_none() {
            return None;
        }
        let (chain, level) = (self.pools[at(quota.pool)].chain, quota.level);
        let shape = &self.chains[chain].shape;
        let (base, size) = (self.chains[chain].leaf_base, shape.size[level]);
        let of_chain = base..base + shape.leaves();
        let cells = spare.range(of_chain).map(|leaf| (leaf - base) / size);
        let is_gain = |leaf: Leaf| {
            let is_better = quota.bad > 0 || self.is_unused(leaf);
            self.usable(leaf) && !self.is_guaranteed(leaf) && is_better
        };
        let is_free = |cell: &u32| {
            let mut leaves = self.leaves_of(chain, level, *cell);
            (is_troubled || self.makes_room(quota, *cell))
                && leaves.all(|leaf| spare.contains(&leaf) && is_gain(leaf))
        };
        let mut cells = cells.filter(is_free);
        Some(Swap {
            chain,
            level,
            a: quota.cell,
            b: cells.next()?,
        })
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
        let Some(number) = self.owner_number(vc) else {
            return Vec::new();
        };
        let is_left = |leaf: &Leaf| {
            let quota = self.quota_of(*leaf);
            // Somebody's pinned cell may wait there.
            let is_others = quota.is_none_or(|quota| self.pools[at(quota.pool)].vc != vc);
            let is_used = self.leaves.claim[at(*leaf)] != NONE || self.is_held_by(*leaf, vc);
            self.leaves.owner[at(*leaf)] == number && is_others && !is_used
        };
        (0..self.leaf_count()).filter(is_left).collect()
    }
}
