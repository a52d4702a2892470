//! Places on machines that have enough beside leaf cells.
//!
//! Searching goes by leaves. Where the machines found are short of anything else, the leaves that
//! they cannot serve are hidden on a copy of the view and the search is made again. That is exact
//! for pods that all ask for the same, and for one machine; for others it is tried a few times,
//! then kind by kind.

use std::collections::BTreeMap;

use super::case::GangCase;
use super::fit::{fit, into_bin, single_bins_each};
use super::near::holds;
use super::need::{Need, Spot};
use super::room::Room;
use crate::amount::{MachineAmount, Resource};
use crate::cells::{AllocationMode, Cells, Sum};
use crate::gang::{Gang, Placement};
use crate::index::{LeafView, at, pick};

/// Searches that are made with more and more hidden.
const SEARCHES_MAX: usize = 16;
/// Bins of a class that are tried for a whole gang.
const BINS_MAX: u32 = 64;
/// Kinds of pods that are placed one after the other at most.
const KINDS_MAX: usize = 16;

/// What is there to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// What nobody takes.
    Now,
    /// Also what opportunistic gangs take.
    Evicting,
}

/// What changes of what machines have left before the cells know it.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineLimits {
    /// What the gang's other members take, by machine.
    taken: BTreeMap<u32, Sum>,
    /// What guaranteed and preempting gangs give back that go, by machine.
    back: BTreeMap<u32, Sum>,
}

/// A way to find spots in views.
pub(super) type SpotSearch<'a> = &'a dyn Fn(&[&LeafView], &Need) -> Option<Vec<Spot>>;

impl MachineLimits {
    /// What a machine has left; none if that is unlimited.
    pub(super) fn left(&self, cells: &Cells, machine: u32, when: When) -> Option<MachineAmount> {
        let here = &cells.nodes.machines[at(machine)];
        let total = here.total?;
        let mut used = here.guaranteed.plus(here.claimed);
        if when == When::Now {
            used = used.plus(here.opportunistic);
        } else if let Some(back) = self.back.get(&machine) {
            used = used.minus(*back);
        }
        if let Some(taken) = self.taken.get(&machine) {
            used = used.plus(*taken);
        }
        Some(used.left_of(total))
    }

    /// The gang's other members go there.
    pub(super) fn take(&mut self, cells: &Cells, gang: &Gang, placement: &Placement) {
        for (machine, sum) in cells.shares_by_machine(gang, placement) {
            let taken = self.taken.entry(machine).or_default();
            *taken = taken.plus(sum);
        }
    }

    pub(super) fn taken(&self, machine: u32) -> Sum {
        self.taken.get(&machine).copied().unwrap_or_default()
    }

    /// A gang goes.
    pub(super) fn release(&mut self, cells: &Cells, slot: u32) {
        self.give_back(cells, slot, Sum::plus);
    }

    /// It stays after all.
    pub(super) fn restore(&mut self, cells: &Cells, slot: u32) {
        self.give_back(cells, slot, Sum::minus);
    }

    fn give_back(&mut self, cells: &Cells, slot: u32, change: fn(Sum, Sum) -> Sum) {
        let running = cells.gangs.get(slot);
        let Some(running) = running.filter(|running| running.mode != AllocationMode::Opportunistic)
        else {
            return;
        };
        for (machine, sum) in cells.shares_by_machine(&running.gang, &running.placement) {
            let back = self.back.entry(machine).or_default();
            *back = change(*back, sum);
        }
    }
}

/// Spots in rooms on machines that have enough.
pub(super) fn within(
    case: &GangCase<'_>,
    limits: &MachineLimits,
    (rooms, when): (&[Room<'_>], When),
    search: SpotSearch<'_>,
) -> Option<Vec<Spot>> {
    let views: Vec<&LeafView> = rooms.iter().map(|room| room.view).collect();
    let spots = search(&views, &case.need)?;
    let trial = Trial {
        cells: case.cells,
        need: &case.need,
        limits,
        rooms,
        when,
    };
    if case.need.shares.is_empty() || trial.short(&spots).is_empty() {
        return Some(spots);
    }
    if let Some(spots) = trial.in_one_bin() {
        return Some(spots);
    }
    if trial.is_hopeless() {
        return None;
    }
    let found = trial.narrowing(search);
    let is_equal = case.need.equal_share().is_some() && rooms.len() == 1;
    if found.is_some() || is_equal {
        return found;
    }
    trial.kind_by_kind(search)
}

/// The same in one room, as near together as possible.
pub(super) fn fit_within(
    case: &GangCase<'_>,
    limits: &MachineLimits,
    room: Room<'_>,
    when: When,
) -> Option<Vec<Spot>> {
    if case.need.shares.is_empty() {
        return fit(room.view, &case.need);
    }
    within(case, limits, (&[room], when), &|views, need| {
        fit(views[0], need)
    })
}

/// Whether spots are on machines that have enough.
pub(super) fn suits(case: &GangCase<'_>, rooms: &[Room<'_>], spots: &[Spot], when: When) -> bool {
    let trial = Trial {
        cells: case.cells,
        need: &case.need,
        limits: &case.limits,
        rooms,
        when,
    };
    case.need.shares.is_empty() || trial.short(spots).is_empty()
}

/// A search for spots on machines that have enough.
struct Trial<'a> {
    cells: &'a Cells,
    need: &'a Need,
    limits: &'a MachineLimits,
    rooms: &'a [Room<'a>],
    when: When,
}

impl Trial<'_> {
    fn machine(&self, room: usize, bin: u32) -> u32 {
        let room = &self.rooms[room];
        let leaf = room.leaf_base + bin * room.view.frame.bin_size;
        self.cells.machine_of(leaf)
    }

    fn left(&self, machine: u32) -> Option<MachineAmount> {
        self.limits.left(self.cells, machine, self.when)
    }

    /// The machines that have not enough for the pods on them.
    fn short(&self, spots: &[Spot]) -> Vec<u32> {
        let mut asked: BTreeMap<u32, Sum> = BTreeMap::new();
        for (spot, share) in spots.iter().zip(&self.need.shares) {
            let machine = self.machine(spot.view, spot.bin);
            asked.entry(machine).or_default().add(*share);
        }
        let is_short = |(machine, asked): &(u32, Sum)| {
            self.left(*machine)
                .is_some_and(|left| !asked.fits_in(&left))
        };
        let short = asked.into_iter().filter(is_short);
        short.map(|(machine, _)| machine).collect()
    }

    /// The whole gang in one of the bins that suit it best, if their machines have enough: most
    /// gangs are small, and nothing has to be copied for them.
    fn in_one_bin(&self) -> Option<Vec<Spot>> {
        if self.rooms.len() > 1 || !self.need.wishes.is_empty() {
            return None;
        }
        let view = self.rooms.first()?.view;
        let bins = single_bins_each(view, self.need, BINS_MAX);
        let ways = bins
            .into_iter()
            .filter_map(|bin| into_bin(view, bin, self.need));
        ways.into_iter().find(|spots| self.short(spots).is_empty())
    }

    /// Whether all machines of the room together have not enough: nothing has to be searched.
    fn is_hopeless(&self) -> bool {
        let [room] = self.rooms else {
            return false;
        };
        let (mut all, mut last) = (Sum::default(), None);
        for bin in (0..room.view.frame.bins).filter(|bin| room.view.mask(at(*bin)) != 0) {
            let machine = self.machine(0, bin);
            if last.replace(machine) == Some(machine) {
                continue;
            }
            match self.left(machine) {
                Some(left) => all.add(left),
                None => return false,
            }
        }
        let mut asked = Sum::default();
        self.need.shares.iter().for_each(|share| asked.add(*share));
        Resource::ALL
            .iter()
            .any(|what| asked.of(*what) > all.of(*what))
    }

    /// Hides what machines cannot serve, then more of it where the spots found are short.
    fn narrowing(&self, search: SpotSearch<'_>) -> Option<Vec<Spot>> {
        let views = self.rooms.iter().map(|room| room.view.clone());
        let mut views: Vec<LeafView> = views.collect();
        for (room, view) in views.iter_mut().enumerate() {
            self.hide(room, view, self.need);
        }
        for _ in 0..SEARCHES_MAX {
            let seen: Vec<&LeafView> = views.iter().collect();
            let spots = search(&seen, self.need)?;
            let short = self.short(&spots);
            if short.is_empty() {
                return Some(spots);
            }
            let pods = self.by_machine(&spots);
            for machine in short {
                let pods = pods.get(&machine).map_or(&[][..], |pods| pods);
                self.hide_more(machine, pods, &spots, &mut views);
            }
        }
        None
    }

    /// Leaves in each bin what its machine can serve.
    fn hide(&self, room: usize, view: &mut LeafView, need: &Need) {
        let frame = std::sync::Arc::clone(&view.frame);
        for bin in 0..frame.bins {
            let mask = view.mask(at(bin));
            if mask == 0 {
                continue;
            }
            if let Some(left) = self.left(self.machine(room, bin)) {
                let inner = &frame.shape.size[..=frame.bin];
                view.set(at(bin), served(inner, mask, need, left));
            }
        }
        view.settle();
    }

    /// The pods on each machine, the largest first.
    fn by_machine(&self, spots: &[Spot]) -> BTreeMap<u32, Vec<usize>> {
        let mut pods: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for pod in self.need.largest_first() {
            let machine = self.machine(spots[pod].view, spots[pod].bin);
            pods.entry(machine).or_default().push(pod);
        }
        pods
    }

    /// Leaves on a machine only those of the spots found that it can serve, the largest first.
    fn hide_more(&self, machine: u32, pods: &[usize], spots: &[Spot], views: &mut [LeafView]) {
        let Some(mut left) = self.left(machine) else {
            return;
        };
        let mut kept: BTreeMap<(usize, u32), u128> = BTreeMap::new();
        for pod in pods {
            let spot = spots[*pod];
            if let Some(rest) = left.checked_minus(self.need.shares[*pod]) {
                left = rest;
                *kept.entry((spot.view, spot.bin)).or_default() |= spot.mask;
            }
        }
        for node in &self.cells.nodes.machines[at(machine)].nodes {
            let leaves = self.cells.leaves_of_node(*node).1;
            for (room, view) in views.iter_mut().enumerate() {
                let base = self.rooms[room].leaf_base;
                let chain = base..base + view.frame.shape.leaves();
                if chain.contains(&leaves.start) {
                    let size = view.frame.bin_size;
                    for bin in (leaves.start - base) / size..(leaves.end - base) / size {
                        let kept = kept.get(&(room, bin)).copied().unwrap_or(0);
                        view.set(at(bin), kept);
                    }
                    view.settle();
                }
            }
        }
    }

    /// Pods that ask for the same together, the largest first: each kind is placed exactly.
    fn kind_by_kind(&self, search: SpotSearch<'_>) -> Option<Vec<Spot>> {
        let kinds = self.need.kinds();
        if kinds.len() > KINDS_MAX {
            return None;
        }
        let views = self.rooms.iter().map(|room| room.view.clone());
        let mut views: Vec<LeafView> = views.collect();
        let mut limits = self.limits.clone();
        let mut spots = vec![None; self.need.sizes.len()];
        for pods in kinds {
            let need = self.need.part(&pods);
            let found = self.kind(&need, &limits, &views, search)?;
            for (pod, spot) in pods.into_iter().zip(found) {
                let mask = views[spot.view].mask(at(spot.bin));
                views[spot.view].set(at(spot.bin), mask & !spot.mask);
                let machine = self.machine(spot.view, spot.bin);
                let taken = limits.taken.entry(machine).or_default();
                taken.add(self.need.shares[pod]);
                spots[pod] = Some(spot);
            }
            views.iter_mut().for_each(LeafView::settle);
        }
        let spots: Vec<Spot> = spots.into_iter().collect::<Option<_>>()?;
        let seen: Vec<&LeafView> = self.rooms.iter().map(|room| room.view).collect();
        holds(&seen, self.need, &spots).then_some(spots)
    }

    fn kind(
        &self,
        need: &Need,
        limits: &MachineLimits,
        views: &[LeafView],
        search: SpotSearch<'_>,
    ) -> Option<Vec<Spot>> {
        let rooms = self.rooms.iter().zip(views).map(|(room, view)| Room {
            view,
            leaf_base: room.leaf_base,
        });
        let rooms: Vec<Room<'_>> = rooms.collect();
        let trial = Trial {
            cells: self.cells,
            need,
            limits,
            rooms: &rooms,
            when: self.when,
        };
        trial.narrowing(search)
    }
}

/// As many of a bin's free leaves as `left` is enough for.
fn served(inner: &[u32], free: u128, need: &Need, left: MachineAmount) -> u128 {
    let (Some(share), Some(size)) = (need.equal_share(), need.sizes.first()) else {
        let mut pods = need.sizes.iter().zip(&need.shares);
        let any = pods.any(|(size, share)| *size <= free.count_ones() && share.fits_in(&left));
        return if any { free } else { 0 };
    };
    let pods = left.count_of(&share);
    if free.count_ones() / size <= pods {
        return free;
    }
    let (mut kept, mut rest) = (0, free);
    for _ in 0..pods {
        let Some(mask) = pick(inner, rest, *size) else {
            break;
        };
        kept |= mask;
        rest &= !mask;
    }
    kept
}

/// Whether the machines have enough for a placement, in all.
pub(super) fn placement_suits(case: &GangCase<'_>, placement: &Placement, when: When) -> bool {
    let asked = case.cells.shares_by_machine(case.gang, placement);
    asked.iter().all(|(machine, asked)| {
        let left = case.limits.left(case.cells, *machine, when);
        left.is_none_or(|left| asked.fits_in(&left))
    })
}
