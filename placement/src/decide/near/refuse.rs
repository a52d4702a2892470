//! Nearness that nothing in the cluster can give.

use std::collections::BTreeSet;

use muster_model::cluster_spec::Level;

use crate::cells::{Cells, Chain};
use crate::decide::GangRefusal;
use crate::decide::refuse::chains_of;
use crate::gang::{Gang, GangMember};
use crate::index::NearPart;

/// Whether each member that requires nearness finds a cell of that level that could hold it.
pub(crate) fn check(cells: &Cells, gang: &Gang) -> Result<(), GangRefusal> {
    for member in &gang.members {
        if let Some(near) = member.near.filter(|near| near.required) {
            check_member(cells, gang, member, near.level)?;
        }
    }
    Ok(())
}

fn check_member(
    cells: &Cells,
    gang: &Gang,
    member: &GangMember,
    level: Level,
) -> Result<(), GangRefusal> {
    let chains = chains_of(cells, gang, member).into_iter();
    let chains: Vec<&Chain> = chains.map(|chain| &cells.chains[chain]).collect();
    let hold = chains
        .iter()
        .filter_map(|chain| holds(chain, member, level));
    match hold.max() {
        Some(most) if most >= wanted(member, level) => Ok(()),
        Some(most) => Err(GangRefusal::Near {
            level,
            pods: wanted(member, level),
            leaves: member.leaves,
            most,
        }),
        None => Err(GangRefusal::NoLevel {
            level,
            known: known(&chains),
        }),
    }
}

/// Pods that must lie in one cell.
fn wanted(member: &GangMember, level: Level) -> u32 {
    match level.is_inside_node() {
        true => 1,
        false => member.pods,
    }
}

/// How many pods one empty cell of the level holds; none if there is no such level.
fn holds(chain: &Chain, member: &GangMember, level: Level) -> Option<u32> {
    let shape = &chain.shape;
    if let (Level::Rack, Some(racks)) = (level, &chain.free.racks) {
        return Some(racks.largest() * (shape.size[shape.node] / member.leaves));
    }
    let own = match shape.near_part(level)? {
        NearPart::Cells(own) => own,
        NearPart::Groups(_, groups) => return Some(groups.largest() / member.leaves),
    };
    let machine = own.min(shape.node);
    let machines = shape.size[own] / shape.size[machine];
    Some(machines * (shape.size[machine] / member.leaves))
}

/// The levels that there are, as a list of words.
fn known(chains: &[&Chain]) -> String {
    let levels = chains.iter().flat_map(|chain| {
        let uneven = chain.shape.uneven.iter().map(|groups| groups.level);
        let told = chain.free.racks.iter().map(|_| Level::Rack);
        let cells = chain.shape.levels.iter().flatten().copied();
        cells.chain(uneven).chain(told)
    });
    let levels: BTreeSet<Level> = levels.chain([Level::Node]).collect();
    let words: Vec<&str> = levels.into_iter().map(Level::as_str).collect();
    words.join(", ")
}
