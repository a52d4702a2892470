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
use crate::index::{View, at};

/// Victims that are tried to be spared one by one.
const PRUNED_MAX: usize = 64;

/// A search for victims in one pool.
struct Search<'a> {
    cells: &'a Cells,
    pool: u32,
    need: &'a Need,
}

/// The decision that takes room from gangs below the gang's priority, if that helps.
pub(super) fn within(cells: &Cells, pool: u32, gang: &Gang, need: &Need) -> Option<Decision> {
    let search = Search { cells, pool, need };
    let mut below: Vec<u32> = cells.gangs.below(&gang.vc, gang.priority).collect();
    below.retain(|slot| search.is_in_pool(*slot));
    if below.is_empty() {
        return None;
    }
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

impl Search<'_> {
    fn is_in_pool(&self, slot: u32) -> bool {
        let running = self.cells.gangs.get(slot);
        running.is_some_and(|running| {
            let mut leaves = running.placement.leaves();
            leaves.any(|leaf| {
                self.cells
                    .quota_of(leaf)
                    .is_some_and(|q| q.pool == self.pool)
            })
        })
    }

    /// A set of gangs none of which can be left out, and where the gang goes then.
    fn fewest(&self, below: &[u32]) -> Option<(Vec<u32>, Placement)> {
        self.without(below)?;
        // The least important first: the shortest such list that makes enough room.
        let (mut enough, mut too_few) = (below.len(), 0);
        while too_few + 1 < enough {
            let middle = usize::midpoint(too_few, enough);
            match self.without(&below[..middle]) {
                Some(_) => enough = middle,
                None => too_few = middle,
            }
        }
        let mut best = self.without(&below[..enough])?;
        let mut victims = self.touched(&below[..enough], &best);
        for number in (0..victims.len().min(PRUNED_MAX)).rev() {
            let mut fewer = victims.clone();
            fewer.remove(number);
            if let Some(placement) = self.without(&fewer) {
                victims = fewer;
                best = placement;
            }
        }
        let victims = self.touched(&victims, &best);
        Some((victims, best))
    }

    /// Where the gang goes if these gangs are gone.
    fn without(&self, gangs: &[u32]) -> Option<Placement> {
        let mut view: View = Room::claimable(self.cells, self.pool).view.clone();
        let base = self.cells.chains[self.cells.pools[at(self.pool)].chain].leaf_base;
        let gone: BTreeSet<u32> = gangs.iter().copied().collect();
        for running in gangs.iter().filter_map(|slot| self.cells.gangs.get(*slot)) {
            self.release(running, &gone, base, &mut view);
        }
        view.settle();
        let spots: Vec<Spot> = fit(&view, self.need)?;
        let room = Room {
            view: &view,
            leaf_base: base,
        };
        Some(placement(&[room], &spots))
    }

    fn release(&self, running: &Running, gone: &BTreeSet<u32>, base: Leaf, view: &mut View) {
        for leaf in running.placement.leaves() {
            let in_pool = self
                .cells
                .quota_of(leaf)
                .is_some_and(|q| q.pool == self.pool);
            if in_pool && self.cells.usable(leaf) && self.is_released(leaf, gone) {
                view.set_leaf(leaf - base, true);
            }
        }
    }

    /// Whether nothing guaranteed is left on a leaf without these gangs.
    fn is_released(&self, leaf: Leaf, gone: &BTreeSet<u32>) -> bool {
        let claim = self.cells.leaves.claim[at(leaf)];
        let holder = self.cells.leaves.holder[at(leaf)];
        let stays = |running: &Running| running.mode == Mode::Guaranteed;
        let claimed = claim != crate::index::NONE && !gone.contains(&claim);
        let held = self.cells.holder(leaf).is_some_and(stays) && !gone.contains(&holder);
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
