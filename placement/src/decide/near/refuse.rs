//! Nearness that nothing in the cluster can give.

use std::collections::BTreeSet;

use muster_model::cluster_spec::Level;

use crate::cells::Cells;
use crate::decide::GangRefusal;
use crate::decide::refuse::chains_of;
use crate::gang::{Gang, GangMember};
use crate::index::{NearPart, Shape};

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
    let shapes: Vec<&Shape> = chains_of(cells, gang, member)
        .into_iter()
        .map(|chain| &cells.chains[chain].shape)
        .collect();
    let hold = shapes
        .iter()
        .filter_map(|shape| holds(shape, member, level));
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
            known: known(&shapes),
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
fn holds(shape: &Shape, member: &GangMember, level: Level) -> Option<u32> {
    let own = match shape.near_part(level)? {
        NearPart::Cells(own) => own,
        NearPart::Groups(_, groups) => return Some(groups.largest() / member.leaves),
    };
    let machine = own.min(shape.node);
    let machines = shape.size[own] / shape.size[machine];
    Some(machines * (shape.size[machine] / member.leaves))
}

/// The levels that there are, as a list of words.
fn known(shapes: &[&Shape]) -> String {
    let levels = shapes.iter().flat_map(|shape| {
        let uneven = shape.uneven.iter().map(|groups| groups.level);
        shape.levels.iter().flatten().copied().chain(uneven)
    });
    let levels: BTreeSet<Level> = levels.chain([Level::Node]).collect();
    let words: Vec<&str> = levels.into_iter().map(Level::as_str).collect();
    words.join(", ")
}
