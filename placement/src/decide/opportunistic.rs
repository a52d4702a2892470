//! Gangs that live on what others don't use.

use super::case::GangCase;
use super::limits::{When, fit_within};
use super::refuse::chains;
use super::room::{Room, placement};
use super::{Decision, WaitReason, racks, shortage};
use crate::gang::Grant;
use crate::index::LeafView;

/// On machines without guaranteed gangs if possible, so that it is in nobody's way for longest;
/// else on any idle leaves.
pub(super) fn decide(case: &GangCase<'_>) -> Decision {
    let (cells, gang) = (case.cells, case.gang);
    let chains = chains(cells, gang.leaf_type());
    let quiet = chains
        .iter()
        .map(|chain| (*chain, &cells.chains[*chain].quiet));
    let free = chains
        .iter()
        .map(|chain| (*chain, &cells.chains[*chain].free));
    let found = quiet
        .chain(free)
        .find_map(|(chain, view)| on(case, chain, view));
    let rooms = || chains.iter().map(|chain| room(case, *chain)).collect();
    let short = || {
        let rooms: Vec<Room<'_>> = rooms();
        shortage::of(case, &rooms)
    };
    found.or_else(short).unwrap_or_else(|| {
        let idle = |chain: &usize| {
            let free = &cells.chains[*chain].free;
            free.free(free.frame.domains.root)
        };
        Decision::Wait(WaitReason::Idle {
            asked: gang.leaves(),
            pods: gang.pods(),
            free: chains.iter().map(idle).sum(),
            rack: racks::roomiest(cells, gang, &rooms()),
        })
    })
}

fn room<'a>(case: &GangCase<'a>, chain: usize) -> Room<'a> {
    let chain = &case.cells.chains[chain];
    Room {
        view: &chain.free,
        leaf_base: chain.leaf_base,
    }
}

fn on(case: &GangCase<'_>, chain: usize, view: &LeafView) -> Option<Decision> {
    let room = Room {
        view,
        leaf_base: case.cells.chains[chain].leaf_base,
    };
    let spots = fit_within(case, &case.limits, room, When::Now)?;
    Some(Decision::Place(Grant {
        placement: placement(&[room], &spots),
        ..Grant::default()
    }))
}
