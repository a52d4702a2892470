//! Whole gangs that go because machines have not enough beside leaf cells.

use std::collections::{BTreeMap, BTreeSet};

use super::WaitReason;
use super::case::GangCase;
use super::room::holders;
use crate::amount::{MachineAmount, Resource};
use crate::cells::{AllocationMode, Sum};
use crate::gang::{GangNumber, Grant, Placement};
use crate::index::at;

/// Gangs on short machines, and who of them goes.
struct Eviction<'a> {
    case: &'a GangCase<'a>,
    /// What the gang asks for of machines that may be short.
    asked: BTreeMap<u32, Sum>,
    /// Gangs that go, by slot.
    going: BTreeSet<u32>,
}

/// Adds to the victims whom the machines of a placement need to go beside them; none if even
/// that is not enough.
pub(super) fn for_shares(
    case: &GangCase<'_>,
    placement: &Placement,
    victims: &mut Vec<GangNumber>,
) -> Option<()> {
    if case.need.shares.is_empty() {
        return Some(());
    }
    let slots = victims.iter().filter_map(|id| case.cells.gangs.slot(*id));
    let asked = case.cells.shares_by_machine(case.gang, placement);
    let mut eviction = Eviction {
        case,
        asked,
        going: slots.chain(case.going.iter().copied()).collect(),
    };
    let chosen = eviction.choose()?;
    let ids = chosen.iter().filter_map(|slot| case.cells.gangs.get(*slot));
    victims.extend(ids.map(|running| running.gang.id));
    victims.sort_unstable();
    Some(())
}

impl Eviction<'_> {
    fn choose(&mut self) -> Option<Vec<u32>> {
        let mut chosen = Vec::new();
        for (machine, asked) in self.asked.clone() {
            let mut candidates = None;
            while !self.is_enough(machine, asked) {
                let all = candidates.get_or_insert_with(|| self.candidates(machine).into_iter());
                let slot = all.next()?;
                self.going.insert(slot);
                chosen.push(slot);
            }
        }
        // Who was chosen first is the one whom it costs least to lose.
        for number in (0..chosen.len()).rev() {
            self.going.remove(&chosen[number]);
            if self.is_enough_without(chosen[number]) {
                chosen.remove(number);
            } else {
                self.going.insert(chosen[number]);
            }
        }
        Some(chosen)
    }

    /// Whether the machines that a gang is on have enough if it stays.
    fn is_enough_without(&self, slot: u32) -> bool {
        let cells = self.case.cells;
        cells.gangs.get(slot).is_none_or(|running| {
            let machines = cells.shares_by_machine(&running.gang, &running.placement);
            machines.keys().all(|machine| {
                let asked = self.asked.get(machine);
                asked.is_none_or(|asked| self.is_enough(*machine, *asked))
            })
        })
    }

    /// Whether a machine has enough once those that go are gone.
    fn is_enough(&self, machine: u32, asked: Sum) -> bool {
        self.left(machine).is_none_or(|left| asked.fits_in(&left))
    }

    /// The first resource that there is too little of even then, and how much there is.
    fn lacks(&self, machine: u32, asked: Sum) -> Option<(Resource, u64)> {
        let left = self.left(machine)?;
        let mut short = Resource::ALL.into_iter();
        let what = short.find(|what| asked.of(*what) > left.of(*what))?;
        Some((what, left.of(what)))
    }

    /// What a machine has left for the gang; none if that is unlimited.
    fn left(&self, machine: u32) -> Option<MachineAmount> {
        let here = &self.case.cells.nodes.machines[at(machine)];
        let total = here.total?;
        let mut used = here.held().plus(here.claimed);
        for slot in self.yielding(machine) {
            used = used.minus(self.takes(slot, machine));
        }
        let used = used.plus(self.case.limits.taken(machine));
        Some(used.left_of(total))
    }

    /// Who leaves a machine or has a claim there that is worth nothing against the gang.
    fn yielding(&self, machine: u32) -> Vec<u32> {
        let mut slots = self.on(machine);
        slots.retain(|slot| {
            let running = self.case.cells.gangs.get(*slot);
            let claims = running.is_some_and(|running| {
                let own = running.gang.id == self.case.gang.id;
                running.mode == AllocationMode::Preempting && (own || self.case.may_evict(running))
            });
            claims || self.going.contains(slot)
        });
        slots
    }

    fn takes(&self, slot: u32, machine: u32) -> Sum {
        let cells = self.case.cells;
        let mut sum = Sum::default();
        if let Some(running) = cells.gangs.get(slot) {
            let shares = cells.shares_of(&running.gang, &running.placement);
            for (_, share) in shares.filter(|(number, _)| *number == machine) {
                sum.add(share);
            }
        }
        sum
    }

    /// The gangs that hold or claim leaves of a machine, by slot.
    fn on(&self, machine: u32) -> Vec<u32> {
        let cells = self.case.cells;
        let nodes = &cells.nodes.machines[at(machine)].nodes;
        let leaves = nodes.iter().flat_map(|node| cells.leaves_of_node(*node).1);
        let slots = leaves.flat_map(|leaf| {
            let (holder, claim) = (cells.leaves.holder[at(leaf)], cells.leaves.claim[at(leaf)]);
            [holder, claim]
        });
        let slots: BTreeSet<u32> = slots
            .filter(|slot| cells.gangs.get(*slot).is_some())
            .collect();
        slots.into_iter().collect()
    }

    /// Whom a machine could lose, in the order in which they go: opportunistic gangs, then the
    /// least important; of equals who takes most.
    fn candidates(&self, machine: u32) -> Vec<u32> {
        let cells = self.case.cells;
        let mut slots = self.on(machine);
        slots.retain(|slot| {
            let running = cells.gangs.get(*slot);
            let may = running.is_some_and(|running| {
                running.mode != AllocationMode::Preempting && self.case.may_evict(running)
            });
            let allowed = self.case.only.is_none_or(|only| only.contains(slot));
            let counts = running.is_some_and(|running| running.mode == AllocationMode::Guaranteed);
            may && (allowed || !counts) && !self.going.contains(slot)
        });
        slots.retain(|slot| self.takes(*slot, machine) != Sum::default());
        slots.sort_by_cached_key(|slot| {
            let running = cells.gangs.get(*slot);
            let rank = running.map(|running| match running.mode {
                AllocationMode::Opportunistic => -1,
                AllocationMode::Guaranteed | AllocationMode::Preempting => running.gang.priority,
            });
            (rank, std::cmp::Reverse(self.takes(*slot, machine)))
        });
        slots
    }
}

/// Takes opportunistic gangs off the victims that neither have leaves of the placement nor are
/// needed to go for its machines.
pub(super) fn spare(case: &GangCase<'_>, grant: &Grant, victims: &mut Vec<GangNumber>) {
    let cells = case.cells;
    let in_the_way = holders(cells, &grant.placement);
    let asked = cells.shares_by_machine(case.gang, &grant.placement);
    let slots = victims.iter().filter_map(|id| cells.gangs.slot(*id));
    let mut eviction = Eviction {
        case,
        asked,
        going: slots.collect(),
    };
    victims.retain(|id| {
        let slot = cells.gangs.slot(*id);
        let may_stay = cells.gangs.by_id(*id).is_some_and(|running| {
            running.mode == AllocationMode::Opportunistic && !in_the_way.contains(id)
        });
        let Some(slot) = slot.filter(|_| may_stay) else {
            return true;
        };
        eviction.going.remove(&slot);
        let needed = !eviction.is_enough_without(slot);
        if needed {
            eviction.going.insert(slot);
        }
        needed
    });
}

/// What is missing on the first machine of a placement that is short whoever goes.
pub(super) fn short(case: &GangCase<'_>, placement: &Placement) -> Option<WaitReason> {
    let asked = case.cells.shares_by_machine(case.gang, placement);
    let mut eviction = Eviction {
        case,
        asked,
        going: case.going.clone(),
    };
    for (machine, asked) in eviction.asked.clone() {
        let all = eviction.candidates(machine);
        eviction.going.extend(all);
        if let Some((what, free)) = eviction.lacks(machine, asked) {
            return Some(WaitReason::Machine {
                what,
                asked: asked.of(what),
                most_free: free,
                node: case.cells.machine_name(machine).to_owned(),
                room_for: 0,
                pods: case.gang.pods(),
            });
        }
    }
    None
}

/// How many gangs go for a placement: those on its leaves, and those whom its machines need to.
pub(super) fn cost(case: &GangCase<'_>, placement: &Placement) -> Option<usize> {
    let mut victims = holders(case.cells, placement);
    for_shares(case, placement, &mut victims)?;
    Some(victims.len())
}
