//! Gangs that live on what others don't use.

use super::fit::fit;
use super::need::Need;
use super::refuse::chains;
use super::room::{Room, placement};
use super::{Decision, Waiting};
use crate::cells::Cells;
use crate::gang::{Gang, Grant};
use crate::index::View;

/// On machines without guaranteed gangs if possible, so that it is in nobody's way for longest;
/// else on any idle leaves.
pub(super) fn decide(cells: &Cells, gang: &Gang, need: &Need) -> Decision {
    let chains = chains(cells, &gang.leaf_type);
    let quiet = chains
        .iter()
        .map(|chain| (*chain, &cells.chains[*chain].quiet));
    let free = chains
        .iter()
        .map(|chain| (*chain, &cells.chains[*chain].free));
    let found = quiet
        .chain(free)
        .find_map(|(chain, view)| on(cells, chain, view, need));
    found.unwrap_or_else(|| {
        let idle = |chain: &usize| {
            let free = &cells.chains[*chain].free;
            free.free(free.frame.domains.root)
        };
        Decision::Wait(Waiting::Idle {
            asked: gang.leaves(),
            pods: gang.pods(),
            free: chains.iter().map(idle).sum(),
        })
    })
}

fn on(cells: &Cells, chain: usize, view: &View, need: &Need) -> Option<Decision> {
    let room = Room {
        view,
        leaf_base: cells.chains[chain].leaf_base,
    };
    let spots = fit(view, need)?;
    Some(Decision::Place(Grant {
        placement: placement(&[room], &spots),
        ..Grant::default()
    }))
}
