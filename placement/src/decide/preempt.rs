//! Less important gangs of the same cluster make room: whole gangs, as few as possible.

use std::collections::BTreeSet;

use muster_model::time::Time;

use super::Decision;
use super::case::GangCase;
use super::guaranteed::finish;
use super::limits::{MachineLimits, When, fit_within};
use super::need::Spot;
use super::room::{Room, placement};
use super::spare::Spare;
use crate::cells::{AllocationMode, Cells, PlacedGang};
use crate::gang::{GangNumber, Leaf, Placement};
use crate::index::{LeafView, NONE, at};

/// Victims that are tried to be spared one by one.
const PRUNED_MAX: usize = 64;

/// A search for victims in one pool.
struct VictimSearch<'a> {
    case: &'a GangCase<'a>,
    cells: &'a Cells,
    pool: u32,
    /// Whether only opportunistic gangs' shares of machines are taken, or their leaves too.
    leaves: When,
    /// What could be claimed without the gangs that are `gone`.
    view: LeafView,
    /// What machines have beside leaf cells without them.
    limits: MachineLimits,
    gone: BTreeSet<u32>,
}

/// Decisions that take room from gangs below the gang's priority, if that helps.
pub(super) fn within(case: &GangCase<'_>, pool: u32) -> Vec<Decision> {
    let Some((victims, placement)) = search(case, pool, When::Evicting) else {
        return Vec::new();
    };
    let mut ways = Vec::from_iter(on_idle(case, pool, &victims));
    ways.extend(decision(case, placement, &victims));
    ways
}

/// The same gangs go, but no opportunistic one for its leaves: perhaps they were in the way on
/// machines only.
fn on_idle(case: &GangCase<'_>, pool: u32, victims: &[u32]) -> Option<Decision> {
    if case.need.shares.is_empty() {
        return None;
    }
    let only = victims.iter().copied().collect();
    let case = GangCase {
        only: Some(&only),
        ..case.again()
    };
    let (victims, placement) = search(&case, pool, When::Now)?;
    decision(&case, placement, &victims)
}

/// When all gangs may be evicted that have to go, if only their minimum run time is in the way.
pub(super) fn fixed_until(case: &GangCase<'_>, pools: &[u32]) -> Option<Time> {
    let mut below = case.cells.gangs.below(&case.gang.vc, case.gang.priority);
    let is_fixed = |slot: u32| {
        let running = case.cells.gangs.get(slot);
        running.is_some_and(|running| case.is_fixed(running))
    };
    if !below.any(is_fixed) {
        return None;
    }
    let freed = GangCase {
        frees_fixed: true,
        ..case.again()
    };
    let ways = pools
        .iter()
        .filter_map(|pool| search(&freed, *pool, When::Evicting));
    let latest = ways.filter_map(|(victims, _)| {
        let running = victims
            .iter()
            .filter_map(|slot| case.cells.gangs.get(*slot));
        running.filter_map(|running| running.gang.fixed_until).max()
    });
    latest.min()
}

/// Gangs of its cluster that have to go from a pool, and where the gang goes then.
fn search(case: &GangCase<'_>, pool: u32, leaves: When) -> Option<(Vec<u32>, Placement)> {
    let cells = case.cells;
    let below = cells.gangs.below(&case.gang.vc, case.gang.priority);
    let below: Vec<u32> = below
        .filter(|slot| is_candidate(case, pool, *slot))
        .collect();
    if below.is_empty() && case.going.is_empty() {
        return None;
    }
    let mut search = VictimSearch {
        case,
        cells,
        pool,
        leaves,
        view: match leaves {
            When::Now => cells.pools[at(pool)].free.clone(),
            When::Evicting => cells.pools[at(pool)].claimable.clone(),
        },
        limits: case.limits.clone(),
        gone: BTreeSet::new(),
    };
    for slot in &case.going {
        search.release(*slot);
    }
    search.fewest(&below)
}

fn decision(case: &GangCase<'_>, placement: Placement, victims: &[u32]) -> Option<Decision> {
    let running = || {
        victims
            .iter()
            .filter_map(|slot| case.cells.gangs.get(*slot))
    };
    // A preemption that is overlapped is cancelled when this one is applied; nobody is evicted.
    let held = || running().filter(|running| running.mode == AllocationMode::Guaranteed);
    let ids = |lazy: bool| -> Vec<GangNumber> {
        let chosen = held().filter(|running| running.gang.lazy == lazy);
        chosen.map(|running| running.gang.id).collect()
    };
    let mut spare = Spare::new(case, placement, &ids(true));
    spare.sidestep();
    finish(case, spare.into_grant(), ids(false))
}

/// Whether a gang may go, and it would help in a pool.
fn is_candidate(case: &GangCase<'_>, pool: u32, slot: u32) -> bool {
    let Some(running) = case.cells.gangs.get(slot) else {
        return false;
    };
    let allowed = case.only.is_none_or(|only| only.contains(&slot));
    let has_share = !case.need.shares.is_empty() && running.gang.has_shares();
    allowed
        && case.may_evict(running)
        && !case.going.contains(&slot)
        && (has_share || is_in_pool(case.cells, pool, slot))
}

fn is_in_pool(cells: &Cells, pool: u32, slot: u32) -> bool {
    let running = cells.gangs.get(slot);
    running.is_some_and(|running| {
        let mut leaves = running.placement.leaves();
        leaves.any(|leaf| cells.quota_of(leaf).is_some_and(|quota| quota.pool == pool))
    })
}

impl VictimSearch<'_> {
    /// A set of gangs none of which can be left out, and where the gang goes then.
    fn fewest(&mut self, below: &[u32]) -> Option<(Vec<u32>, Placement)> {
        if !self.gone.is_empty()
            && let Some(placement) = self.placement()
        {
            return Some((Vec::new(), placement));
        }
        let enough = self.enough(below)?;
        let mut best = self.placement()?;
        let mut victims = self.touched(&below[..enough], &best);
        for slot in &below[..enough] {
            if !victims.contains(slot) {
                self.restore(*slot);
            }
        }
        for number in (0..victims.len().min(PRUNED_MAX)).rev() {
            let slot = victims[number];
            self.restore(slot);
            if let Some(placement) = self.placement() {
                victims.remove(number);
                best = placement;
            } else {
                self.release(slot);
            }
        }
        let victims = self.touched(&victims, &best);
        Some((victims, best))
    }

    /// The shortest list of gangs, the least important first, without which there is room; they
    /// are released then. The search doubles the list, then halves the step.
    fn enough(&mut self, below: &[u32]) -> Option<usize> {
        if below.is_empty() {
            return None;
        }
        let (mut too_few, mut enough) = (0, 1);
        loop {
            self.release_up_to(below, enough);
            if self.placement().is_some() {
                break;
            }
            if enough == below.len() {
                return None;
            }
            (too_few, enough) = (enough, (2 * enough).min(below.len()));
        }
        while too_few + 1 < enough {
            let middle = usize::midpoint(too_few, enough);
            self.release_up_to(below, middle);
            match self.placement() {
                Some(_) => enough = middle,
                None => too_few = middle,
            }
        }
        self.release_up_to(below, enough);
        Some(enough)
    }

    /// Releases so many of the gangs and restores the rest. Those released are always a
    /// beginning of the list.
    fn release_up_to(&mut self, below: &[u32], count: usize) {
        let now = self.gone.len() - self.case.going.len();
        for slot in &below[now.min(count)..count] {
            self.release(*slot);
        }
        for slot in &below[count..now.max(count)] {
            self.restore(*slot);
        }
    }

    fn placement(&mut self) -> Option<Placement> {
        self.view.settle();
        let room = Room {
            view: &self.view,
            leaf_base: self.base(),
        };
        let spots: Vec<Spot> = fit_within(self.case, &self.limits, room, When::Evicting)?;
        Some(placement(&[room], &spots))
    }

    fn base(&self) -> Leaf {
        self.cells.chains[self.cells.pools[at(self.pool)].chain].leaf_base
    }

    fn release(&mut self, slot: u32) {
        self.gone.insert(slot);
        self.limits.release(self.cells, slot);
        self.look_again(slot);
    }

    fn restore(&mut self, slot: u32) {
        self.gone.remove(&slot);
        self.limits.restore(self.cells, slot);
        self.look_again(slot);
    }

    /// Brings the view up to date where a gang has leaves.
    fn look_again(&mut self, slot: u32) {
        let Some(running) = self.cells.gangs.get(slot) else {
            return;
        };
        let base = self.base();
        for leaf in running.placement.leaves() {
            let in_pool = self
                .cells
                .quota_of(leaf)
                .is_some_and(|q| q.pool == self.pool && q.is_bound);
            if in_pool && self.cells.usable(leaf) {
                let free = self.is_released(leaf);
                self.view.set_leaf(leaf - base, free);
            }
        }
    }

    /// Whether nobody who stays is left on a leaf without the gangs that are gone.
    fn is_released(&self, leaf: Leaf) -> bool {
        let claim = self.cells.leaves.claim[at(leaf)];
        let holder = self.cells.leaves.holder[at(leaf)];
        let stays = |running: &PlacedGang| {
            running.mode == AllocationMode::Guaranteed || self.leaves == When::Now
        };
        let claimed = claim != NONE && !self.gone.contains(&claim);
        let held = self.cells.holder(leaf).is_some_and(stays) && !self.gone.contains(&holder);
        !claimed && !held
    }

    /// Which of the gangs have leaves of a placement, or a share of its machines if it needs one.
    fn touched(&self, gangs: &[u32], placement: &Placement) -> Vec<u32> {
        let mut touched = BTreeSet::new();
        for leaf in placement.leaves() {
            touched.insert(self.cells.leaves.holder[at(leaf)]);
            touched.insert(self.cells.leaves.claim[at(leaf)]);
        }
        let machines = self.cells.shares_by_machine(self.case.gang, placement);
        let shares = |slot: &u32| {
            let running = self.cells.gangs.get(*slot).filter(|_| !machines.is_empty());
            running.is_some_and(|running| {
                let mut shares = self.cells.shares_of(&running.gang, &running.placement);
                shares.any(|(machine, _)| machines.contains_key(&machine))
            })
        };
        let chosen = gangs.iter().copied();
        chosen
            .filter(|slot| touched.contains(slot) || shares(slot))
            .collect()
    }
}
