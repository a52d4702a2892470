//! Less important gangs of the same cluster make room: whole gangs, as few as possible.

use std::collections::BTreeSet;

use super::Decision;
use super::fit::fit;
use super::guaranteed::finish;
use super::need::{Need, Spot};
use super::room::{Room, placement};
use super::spare::Spare;
use crate::cells::{Cells, Mode, Running};
use crate::gang::{Gang, GangId, Leaf, Placement};
use crate::index::{NONE, View, at};

/// Victims that are tried to be spared one by one.
const PRUNED_MAX: usize = 64;

/// A search for victims in one pool.
struct Search<'a> {
    cells: &'a Cells,
    pool: u32,
    need: &'a Need,
    /// What could be claimed without the gangs that are `gone`.
    view: View,
    gone: BTreeSet<u32>,
}

/// The decision that takes room from gangs below the gang's priority, if that helps.
pub(super) fn within(cells: &Cells, pool: u32, gang: &Gang, need: &Need) -> Option<Decision> {
    let below = cells.gangs.below(&gang.vc, gang.priority);
    let below: Vec<u32> = below
        .filter(|slot| is_in_pool(cells, pool, *slot))
        .collect();
    if below.is_empty() {
        return None;
    }
    let mut search = Search {
        cells,
        pool,
        need,
        view: cells.pools[at(pool)].claimable.clone(),
        gone: BTreeSet::new(),
    };
    let (victims, placement) = search.fewest(&below)?;
    Some(decision(cells, placement, &victims))
}

fn decision(cells: &Cells, placement: Placement, victims: &[u32]) -> Decision {
    let running = || victims.iter().filter_map(|slot| cells.gangs.get(*slot));
    // A preemption that is overlapped is cancelled when this one is applied; nobody is evicted.
    let held = || running().filter(|running| running.mode == Mode::Guaranteed);
    let ids = |lazy: bool| -> Vec<GangId> {
        let chosen = held().filter(|running| running.gang.lazy == lazy);
        chosen.map(|running| running.gang.id).collect()
    };
    let mut spare = Spare::new(cells, placement, &ids(true));
    spare.sidestep();
    finish(cells, spare.into_grant(), ids(false))
}

fn is_in_pool(cells: &Cells, pool: u32, slot: u32) -> bool {
    let running = cells.gangs.get(slot);
    running.is_some_and(|running| {
        let mut leaves = running.placement.leaves();
        leaves.any(|leaf| cells.quota_of(leaf).is_some_and(|quota| quota.pool == pool))
    })
}

impl Search<'_> {
    /// A set of gangs none of which can be left out, and where the gang goes then.
    fn fewest(&mut self, below: &[u32]) -> Option<(Vec<u32>, Placement)> {
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
        let now = self.gone.len();
        for slot in &below[now.min(count)..count] {
            self.release(*slot);
        }
        for slot in &below[count..now.max(count)] {
            self.restore(*slot);
        }
    }

    fn placement(&mut self) -> Option<Placement> {
        self.view.settle();
        let spots: Vec<Spot> = fit(&self.view, self.need)?;
        let room = Room {
            view: &self.view,
            leaf_base: self.base(),
        };
        Some(placement(&[room], &spots))
    }

    fn base(&self) -> Leaf {
        self.cells.chains[self.cells.pools[at(self.pool)].chain].leaf_base
    }

    fn release(&mut self, slot: u32) {
        self.gone.insert(slot);
        self.look_again(slot);
    }

    fn restore(&mut self, slot: u32) {
        self.gone.remove(&slot);
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
                .is_some_and(|q| q.pool == self.pool);
            if in_pool && self.cells.usable(leaf) {
                let free = self.is_released(leaf);
                self.view.set_leaf(leaf - base, free);
            }
        }
    }

    /// Whether nothing guaranteed is left on a leaf without the gangs that are gone.
    fn is_released(&self, leaf: Leaf) -> bool {
        let claim = self.cells.leaves.claim[at(leaf)];
        let holder = self.cells.leaves.holder[at(leaf)];
        let stays = |running: &Running| running.mode == Mode::Guaranteed;
        let claimed = claim != NONE && !self.gone.contains(&claim);
        let held = self.cells.holder(leaf).is_some_and(stays) && !self.gone.contains(&holder);
        !claimed && !held
    }

    /// Which of the gangs have leaves of a placement.
    fn touched(&self, gangs: &[u32], placement: &Placement) -> Vec<u32> {
        let mut touched = BTreeSet::new();
        for leaf in placement.leaves() {
            touched.insert(self.cells.leaves.holder[at(leaf)]);
            touched.insert(self.cells.leaves.claim[at(leaf)]);
        }
        let chosen = gangs.iter().copied().filter(|slot| touched.contains(slot));
        chosen.collect()
    }
}
