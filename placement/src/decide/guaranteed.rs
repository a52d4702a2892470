//! Gangs within their cluster's quota: on idle leaves, such that no promise of a whole cell is broken needlessly; else where only opportunistic gangs are,
//! which are spared if the quota cell can be exchanged for an idle one; else after repairs; else
//! by preempting less important gangs of the same cluster.

use super::case::GangCase;
use super::fit::{fit_across, into_bin, single_bins};
use super::limits::{When, fit_within, suits, within};
use super::need::Spot;
use super::repair::repaired;
use super::room::{Room, holders, placement};
use super::spare::Spare;
use super::{Decision, WaitReason, evict, preempt, racks, refuse, shortage, whole};
use crate::cells::Cells;
use crate::gang::{GangNumber, Grant, Placement};
use crate::index::at;

/// Bins that are compared by how many opportunistic gangs would have to go.
const COMPARED: usize = 8;

pub(super) fn decide(case: &GangCase<'_>) -> Decision {
    let pools = refuse::pools(case.cells, case.gang);
    let chains: Vec<&[u32]> = by_chain(case.cells, &pools);
    let idle = chains.iter().find_map(|pools| on_idle(case, pools));
    if let Some(placement) = idle {
        let whole = whole::spared(case, &pools, &placement);
        return Decision::Place(whole.unwrap_or_else(|| Grant {
            placement,
            ..Grant::default()
        }));
    }
    let of_leaves = leaves_of(case);
    let ways = chains.iter().flat_map(|pools| {
        let ways = of_leaves.iter();
        ways.filter_map(|leaves| evicting(case, pools, *leaves))
    });
    if let Some(decision) = fewest_victims(ways) {
        return decision;
    }
    let ways = pools.iter().filter_map(|pool| repaired(case, *pool));
    if let Some(decision) = fewest_victims(ways) {
        return decision;
    }
    let ways = pools.iter().flat_map(|pool| preempt::within(case, *pool));
    let found = fewest_victims(ways).or_else(|| spanning(case, &pools));
    found.unwrap_or_else(|| wait(case, &pools))
}

/// On which leaves a gang goes where somebody has to go for it: if machines may be short of
/// something else, perhaps nobody has to go for leaves.
fn leaves_of(case: &GangCase<'_>) -> &'static [When] {
    match case.need.shares.is_empty() {
        true => &[When::Evicting],
        false => &[When::Now, When::Evicting],
    }
}

fn by_chain<'a>(cells: &Cells, pools: &'a [u32]) -> Vec<&'a [u32]> {
    let chain = |pool: &u32| cells.pools[at(*pool)].chain;
    pools.chunk_by(|a, b| chain(a) == chain(b)).collect()
}

/// The decision that costs the fewest gangs; the first of equals, and at once one that costs none.
fn fewest_victims(ways: impl Iterator<Item = Decision>) -> Option<Decision> {
    let mut best: Option<(usize, Decision)> = None;
    for way in ways {
        let cost = match &way {
            Decision::Place(_) => return Some(way),
            Decision::Preempt { victims, .. } => victims.len(),
            Decision::Wait(_) | Decision::Refuse(_) => continue,
        };
        if best.as_ref().is_none_or(|best| cost < best.0) {
            best = Some((cost, way));
        }
    }
    best.map(|best| best.1)
}

/// What there is of pools.
fn rooms<'a>(case: &GangCase<'a>, pools: &[u32], when: When) -> Vec<Room<'a>> {
    let room = |pool: &u32| match when {
        When::Now => Room::free(case.cells, *pool),
        When::Evicting => Room::claimable(case.cells, *pool),
    };
    pools.iter().map(room).collect()
}

fn on_idle(case: &GangCase<'_>, pools: &[u32]) -> Option<Placement> {
    let rooms = rooms(case, pools, When::Now);
    let fit = |room: Room<'_>| fit_within(case, &case.limits, room, When::Now);
    somewhere(case, (&rooms, When::Now), fit)
}

/// In one of the rooms, else in several at once.
fn somewhere(
    case: &GangCase<'_>,
    (rooms, when): (&[Room<'_>], When),
    fit_one: impl Fn(Room<'_>) -> Option<Vec<Spot>>,
) -> Option<Placement> {
    for room in rooms {
        if let Some(spots) = fit_one(*room) {
            return Some(placement(&[*room], &spots));
        }
    }
    match rooms.len() {
        0 | 1 => None,
        _ => across(case, rooms, when),
    }
}

fn across(case: &GangCase<'_>, rooms: &[Room<'_>], when: When) -> Option<Placement> {
    let spots = within(case, &case.limits, (rooms, when), &fit_across);
    spots.map(|spots| placement(rooms, &spots))
}

/// Where no guaranteed gang is in the way.
fn evicting(case: &GangCase<'_>, pools: &[u32], leaves: When) -> Option<Decision> {
    let rooms = rooms(case, pools, leaves);
    let fewest = |room: Room<'_>| with_fewest(case, room);
    let placement = somewhere(case, (&rooms, When::Evicting), fewest)?;
    sparing(case, placement)
}

fn with_fewest(case: &GangCase<'_>, room: Room<'_>) -> Option<Vec<Spot>> {
    let bins = single_bins(room.view, &case.need, COMPARED).into_iter();
    let choices = bins.filter_map(|bin| into_bin(room.view, bin, &case.need));
    let suit = |spots: &Vec<Spot>| suits(case, &[room], spots, When::Evicting);
    let cost = |spots: &Vec<Spot>| {
        let cost = evict::cost(case, &placement(&[room], spots));
        cost.unwrap_or(usize::MAX)
    };
    let best = choices.filter(suit).min_by_key(cost);
    best.or_else(|| fit_within(case, &case.limits, room, When::Evicting))
}

/// A placement with as few evictions as exchanges can make it.
fn sparing(case: &GangCase<'_>, placement: Placement) -> Option<Decision> {
    let mut spare = Spare::new(case, placement, &[]);
    spare.sidestep();
    finish(case, spare.into_grant(), Vec::new())
}

/// The grant as a decision: who is on its leaves must go, and `victims` anyway. None if its
/// machines have not enough even then.
pub(super) fn finish(
    case: &GangCase<'_>,
    grant: Grant,
    mut victims: Vec<GangNumber>,
) -> Option<Decision> {
    victims.extend(holders(case.cells, &grant.placement));
    victims.sort_unstable();
    victims.dedup();
    evict::for_shares(case, &grant.placement, &mut victims)?;
    Some(match victims.is_empty() {
        true => Decision::Place(grant),
        false => Decision::Preempt { victims, grant },
    })
}

/// Over several chains of one leaf type.
fn spanning(case: &GangCase<'_>, pools: &[u32]) -> Option<Decision> {
    if !case.policy.span_chains || case.need.sizes.len() < 2 {
        return None;
    }
    let cells = case.cells;
    let leaf = |pool: &u32| &cells.chains[cells.pools[at(*pool)].chain].shape.types[0];
    let mut pools = pools.to_vec();
    pools.sort_by_key(|pool| leaf(pool));
    let alike: Vec<&[u32]> = pools.chunk_by(|a, b| leaf(a) == leaf(b)).collect();
    let on = |when: When| {
        let mut alike = alike.iter().filter(|pools| pools.len() > 1);
        alike.find_map(|pools| across(case, &rooms(case, pools, when), when))
    };
    let found = on(When::Now).or_else(|| on(When::Evicting))?;
    sparing(case, found)
}

fn wait(case: &GangCase<'_>, pools: &[u32]) -> Decision {
    let (cells, gang) = (case.cells, case.gang);
    if let Some(until) = preempt::fixed_until(case, pools) {
        return Decision::Wait(WaitReason::Fixed { until });
    }
    let rooms = rooms(case, pools, When::Evicting);
    if let Some(decision) = shortage::of(case, &rooms) {
        return decision;
    }
    let quotas = || pools.iter().flat_map(|pool| &cells.pools[at(*pool)].quotas);
    let lacking = pools
        .iter()
        .map(|pool| cells.lacks(&cells.pools[at(*pool)]));
    let leaves: u64 = lacking.sum();
    if cells.owners.is_some() && leaves > 0 {
        return Decision::Wait(WaitReason::Unbound {
            vc: gang.vc.clone(),
            leaves,
        });
    }
    let free = |room: &Room<'_>| room.view.free(room.view.frame.domains.root);
    Decision::Wait(WaitReason::Quota {
        asked: gang.leaves(),
        pods: gang.pods(),
        vc: gang.vc.clone(),
        free: rooms.iter().map(free).sum(),
        bad: quotas().map(|quota| cells.quotas[at(*quota)].bad).sum(),
        rack: racks::roomiest(cells, gang, &rooms),
    })
}
