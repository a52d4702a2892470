//! Gangs within their cluster's quota: on idle leaves; else where only opportunistic gangs are,
//! which are spared if the quota cell can be exchanged for an idle one; else after repairs; else
//! by preempting less important gangs of the same cluster.

use super::fit::{fit, fit_across, into_bin, single_bins};
use super::need::{Need, Spot};
use super::repair::repaired;
use super::room::{Room, holders, holders_in, placement};
use super::spare::Spare;
use super::{Decision, Policy, Waiting, preempt, refuse};
use crate::cells::Cells;
use crate::gang::{Gang, GangId, Grant, Placement};
use crate::index::at;

/// Bins that are compared by how many opportunistic gangs would have to go.
const COMPARED: usize = 8;

pub(super) fn decide(cells: &Cells, gang: &Gang, need: &Need, policy: &Policy) -> Decision {
    let pools = refuse::pools(cells, gang);
    let chains: Vec<&[u32]> = by_chain(cells, &pools);
    let idle = chains.iter().find_map(|pools| on_idle(cells, pools, need));
    if let Some(placement) = idle {
        return Decision::Place(Grant {
            placement,
            ..Grant::default()
        });
    }
    let ways = chains
        .iter()
        .filter_map(|pools| evicting(cells, pools, need));
    if let Some(decision) = fewest_victims(ways) {
        return decision;
    }
    let ways = pools
        .iter()
        .filter_map(|pool| repaired(cells, *pool, need, policy));
    if let Some(decision) = fewest_victims(ways) {
        return decision;
    }
    let ways = pools
        .iter()
        .filter_map(|pool| preempt::within(cells, *pool, gang, need));
    if let Some(decision) = fewest_victims(ways) {
        return decision;
    }
    spanning(cells, &pools, need, policy).unwrap_or_else(|| wait(cells, gang, &pools))
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

fn on_idle(cells: &Cells, pools: &[u32], need: &Need) -> Option<Placement> {
    let rooms: Vec<Room<'_>> = pools.iter().map(|pool| Room::free(cells, *pool)).collect();
    somewhere(&rooms, need, |room| fit(room.view, need))
}

/// In one of the rooms, else in several at once.
fn somewhere(
    rooms: &[Room<'_>],
    need: &Need,
    fit_one: impl Fn(Room<'_>) -> Option<Vec<Spot>>,
) -> Option<Placement> {
    for room in rooms {
        if let Some(spots) = fit_one(*room) {
            return Some(placement(&[*room], &spots));
        }
    }
    if rooms.len() < 2 {
        return None;
    }
    let views: Vec<_> = rooms.iter().map(|room| room.view).collect();
    fit_across(&views, need).map(|spots| placement(rooms, &spots))
}

/// Where no guaranteed gang is in the way.
fn evicting(cells: &Cells, pools: &[u32], need: &Need) -> Option<Decision> {
    let rooms: Vec<Room<'_>> = pools
        .iter()
        .map(|pool| Room::claimable(cells, *pool))
        .collect();
    let placement = somewhere(&rooms, need, |room| with_fewest(cells, room, need))?;
    Some(sparing(cells, placement))
}

fn with_fewest(cells: &Cells, room: Room<'_>, need: &Need) -> Option<Vec<Spot>> {
    let bins = single_bins(room.view, need, COMPARED).into_iter();
    let choices = bins.filter_map(|bin| into_bin(room.view, bin, need));
    let best = choices.min_by_key(|spots| holders_in(cells, room, spots));
    best.or_else(|| fit(room.view, need))
}

/// A placement with as few evictions as exchanges can make it.
fn sparing(cells: &Cells, placement: Placement) -> Decision {
    let mut spare = Spare::new(cells, placement, &[]);
    spare.sidestep();
    finish(cells, spare.into_grant(), Vec::new())
}

/// The grant as a decision: who is on its leaves must go, and `victims` anyway.
pub(super) fn finish(cells: &Cells, grant: Grant, mut victims: Vec<GangId>) -> Decision {
    victims.extend(holders(cells, &grant.placement));
    victims.sort_unstable();
    victims.dedup();
    match victims.is_empty() {
        true => Decision::Place(grant),
        false => Decision::Preempt { victims, grant },
    }
}

/// Over several chains of one leaf type.
fn spanning(cells: &Cells, pools: &[u32], need: &Need, policy: &Policy) -> Option<Decision> {
    if !policy.span_chains || need.sizes.len() < 2 {
        return None;
    }
    let leaf = |pool: &u32| &cells.chains[cells.pools[at(*pool)].chain].shape.types[0];
    let mut pools = pools.to_vec();
    pools.sort_by_key(|pool| leaf(pool));
    let alike: Vec<&[u32]> = pools.chunk_by(|a, b| leaf(a) == leaf(b)).collect();
    let across = |rooms: Vec<Room<'_>>| {
        let views: Vec<_> = rooms.iter().map(|room| room.view).collect();
        fit_across(&views, need).map(|spots| placement(&rooms, &spots))
    };
    let alike = || alike.iter().filter(|pools| pools.len() > 1);
    let idle =
        alike().find_map(|pools| across(pools.iter().map(|p| Room::free(cells, *p)).collect()));
    let any = || {
        alike().find_map(|pools| across(pools.iter().map(|p| Room::claimable(cells, *p)).collect()))
    };
    idle.or_else(any).map(|placement| sparing(cells, placement))
}

fn wait(cells: &Cells, gang: &Gang, pools: &[u32]) -> Decision {
    let quotas = || pools.iter().flat_map(|pool| &cells.pools[at(*pool)].quotas);
    let free = |pool: &u32| {
        let view = &cells.pools[at(*pool)].claimable;
        view.free(view.frame.domains.root)
    };
    Decision::Wait(Waiting::Quota {
        asked: gang.leaves(),
        pods: gang.pods(),
        vc: gang.vc.clone(),
        free: pools.iter().map(free).sum(),
        bad: quotas().map(|quota| cells.quotas[at(*quota)].bad).sum(),
    })
}
