//! What there is too little of when it is not leaf cells.

use super::case::GangCase;
use super::fit::{fit, fit_across};
use super::limits::When;
use super::room::Room;
use super::{Decision, GangRefusal, WaitReason};
use crate::amount::{MachineAmount, Resource};
use crate::index::{LeafView, at};

/// A machine that a gang could use if it had enough left.
#[derive(Clone, Copy, Debug)]
struct LackingMachine {
    machine: u32,
    /// Free leaves that are not given to its pods yet.
    leaves: u32,
    left: MachineAmount,
}

/// Why a gang waits that has leaves to go to in one of the rooms: its machines are short of
/// something else. None if leaves are what it lacks.
pub(super) fn of(case: &GangCase<'_>, rooms: &[Room<'_>]) -> Option<Decision> {
    if case.need.shares.is_empty() {
        return None;
    }
    let views: Vec<&LeafView> = rooms.iter().map(|room| room.view).collect();
    let in_one = || views.iter().any(|view| fit(view, &case.need).is_some());
    if !in_one() && fit_across(&views, &case.need).is_none() {
        return None;
    }
    let refusal = never(case, rooms).map(Decision::Refuse);
    refusal.or_else(|| missing(case, rooms).map(Decision::Wait))
}

/// A pod's share that no machine has, in use or not.
fn never(case: &GangCase<'_>, rooms: &[Room<'_>]) -> Option<GangRefusal> {
    let machines = machines(case, rooms);
    let totals: Option<Vec<MachineAmount>> = machines
        .iter()
        .map(|machine| case.cells.nodes.machines[at(*machine)].total)
        .collect();
    let totals = totals?;
    let is_nowhere = |share: &&MachineAmount| !totals.iter().any(|total| share.fits_in(total));
    let share = case.need.shares.iter().find(is_nowhere)?;
    Some(GangRefusal::Together { share: *share })
}

fn machines(case: &GangCase<'_>, rooms: &[Room<'_>]) -> Vec<u32> {
    let of_room = |room: &Room<'_>| {
        let frame = &room.view.frame;
        let (base, size) = (room.leaf_base, frame.bin_size);
        (0..frame.bins).map(move |bin| case.cells.machine_of(base + bin * size))
    };
    let mut machines: Vec<u32> = rooms.iter().flat_map(of_room).collect();
    machines.sort_unstable();
    machines.dedup();
    machines
}

/// Gives each pod a machine, and says what is missing for the first that finds none.
fn missing(case: &GangCase<'_>, rooms: &[Room<'_>]) -> Option<WaitReason> {
    let mut candidates = candidates(case, rooms);
    let most = MachineAmount {
        cpu: u32::MAX,
        memory_mb: u64::MAX,
        ports: u32::MAX,
    };
    let mut room_for = 0;
    for pod in case.need.largest_first() {
        let (size, share) = (case.need.sizes[pod], case.need.shares[pod]);
        let mut fitting = candidates
            .iter_mut()
            .filter(|c| c.leaves >= size && share.fits_in(&c.left));
        if let Some(found) = fitting.next() {
            found.leaves -= size;
            // Unlimited stays unlimited.
            if found.left != most {
                found.left = found.left.minus(share);
            }
            room_for += 1;
            continue;
        }
        let (what, best) = scarcest(&candidates, size, share)?;
        return Some(WaitReason::Machine {
            what,
            asked: share.of(what),
            most_free: best.left.of(what),
            node: case.cells.machine_name(best.machine).to_owned(),
            room_for,
            pods: case.gang.pods(),
        });
    }
    None
}

fn candidates(case: &GangCase<'_>, rooms: &[Room<'_>]) -> Vec<LackingMachine> {
    let mut candidates: Vec<LackingMachine> = Vec::new();
    for room in rooms {
        for bin in 0..room.view.frame.bins {
            let leaves = room.view.mask(at(bin)).count_ones();
            if leaves == 0 {
                continue;
            }
            let machine = case
                .cells
                .machine_of(room.leaf_base + bin * room.view.frame.bin_size);
            let left = case.limits.left(case.cells, machine, When::Now);
            let left = left.unwrap_or(MachineAmount {
                cpu: u32::MAX,
                memory_mb: u64::MAX,
                ports: u32::MAX,
            });
            candidates.push(LackingMachine {
                machine,
                leaves,
                left,
            });
        }
    }
    candidates
}

/// The resource that no machine with enough leaves has enough of, or the one that those lack
/// that have most of all else; and the machine that has most of it.
fn scarcest(
    candidates: &[LackingMachine],
    size: u32,
    share: MachineAmount,
) -> Option<(Resource, LackingMachine)> {
    let large = || candidates.iter().filter(|c| c.leaves >= size);
    let best = |what: Resource| large().max_by_key(|c| c.left.of(what)).copied();
    let mut lacking = Resource::ALL.into_iter();
    let nowhere = lacking.find_map(|what| {
        let best = best(what)?;
        (best.left.of(what) < share.of(what)).then_some((what, best))
    });
    nowhere.or_else(|| {
        let first = large().next()?;
        let what = Resource::ALL
            .into_iter()
            .find(|what| first.left.of(*what) < share.of(*what))?;
        Some((what, *first))
    })
}
