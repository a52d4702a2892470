//! Who could go on elsewhere so that a gang fits.

use super::{Constraint, ExplainCase};
use crate::cells::{AllocationMode, CellEvent, Cells, PlacedGang};
use crate::decide::{Decision, decide, lacking};
use crate::gang::{Gang, GangNumber, Placement};
use crate::index::at;

/// Gangs that are moved at most.
const MOVED_MAX: usize = 3;
/// Gangs that are thought of, those with the fewest leaves first.
const CANDIDATES: usize = 24;
/// Sets of gangs that are really placed elsewhere before giving up.
const TRIES_MAX: usize = 256;

/// Leaves that may be copied for one search, an order; bounds its time in large clusters.
const COPIED_MAX: u32 = 8 << 20;

/// A gang that could go on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GangMove {
    /// The gang.
    pub gang: GangNumber,
    /// Where it would go.
    pub to: Placement,
}

/// The gangs to move; empty if none are found, or if moving does not help.
pub(super) fn find(case: &ExplainCase<'_>, constraint: &Constraint) -> Vec<GangMove> {
    let may_help = matches!(
        constraint,
        Constraint::Topology
            | Constraint::Machines
            | Constraint::Hardware { alone: false, .. }
            | Constraint::Fixed(_)
            | Constraint::Fragmented
    );
    match may_help {
        true => search(case).unwrap_or_default(),
        false => Vec::new(),
    }
}

/// The set of gangs with the fewest leaves that could be moved so that the gang fits, evicting
/// nobody. Moving makes no leaf free, so it is tried only if enough are. Sets of at most 3 of the 24
/// smallest gangs are tried, at most 256 and fewer in very large clusters, each in three orders, and
/// everybody takes the place that is best for himself: now and then a way is missed, or one with
/// more leaves is told.
fn search(case: &ExplainCase<'_>) -> Option<Vec<GangMove>> {
    if !lacking::has_enough(case.cells, case.gang, case.policy, case.now) {
        return None;
    }
    let gangs = candidates(case);
    let mut sets = sets(&gangs);
    sets.sort_by_key(|set| (leaves(&gangs, set), set.len(), set.clone()));
    let tries = COPIED_MAX / case.cells.leaf_count().max(1);
    sets.truncate(TRIES_MAX.min(at(tries)));
    sets.into_iter().find_map(|set| {
        let moved: Vec<&PlacedGang> = set.iter().map(|number| gangs[*number]).collect();
        let mut orders = PlacingOrder::ALL.into_iter();
        orders.find_map(|order| attempt(case, &moved, order))
    })
}

/// In which order everybody is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlacingOrder {
    /// Those who move go to leaves that are idle now, then the gang starts where they were.
    Aside,
    /// The gang takes its place as if they were not there, then they go where there is room.
    GangFirst,
    /// They do, then the gang.
    GangLast,
}

impl PlacingOrder {
    const ALL: [Self; 3] = [Self::Aside, Self::GangFirst, Self::GangLast];
}

/// Who may be moved and has leaves that the gang may use.
fn candidates<'a>(case: &'a ExplainCase<'_>) -> Vec<&'a PlacedGang> {
    let cells = case.cells;
    let may = |running: &&PlacedGang| match running.mode {
        AllocationMode::Preempting => false,
        AllocationMode::Opportunistic => true,
        AllocationMode::Guaranteed => running.gang.restartable,
    };
    let helps = |running: &&PlacedGang| {
        let gang = case.gang;
        let mut leaves = running.placement.leaves();
        leaves.any(|leaf| gang.is_opportunistic() || cells.is_promised(gang, leaf))
    };
    let mut gangs: Vec<&PlacedGang> = cells.gangs.all().filter(may).filter(helps).collect();
    gangs.sort_by_key(|running| (running.placement.leaves().count(), running.gang.id));
    gangs.truncate(CANDIDATES);
    gangs
}

fn leaves(gangs: &[&PlacedGang], set: &[usize]) -> usize {
    let leaves = set
        .iter()
        .map(|number| gangs[*number].placement.leaves().count());
    leaves.sum()
}

/// Every set of at most [`MOVED_MAX`] of them.
fn sets(gangs: &[&PlacedGang]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut last: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..MOVED_MAX {
        let longer = last.iter().flat_map(|set| {
            let from = set.last().map_or(0, |last| last + 1);
            (from..gangs.len()).map(|next| [&set[..], &[next]].concat())
        });
        last = longer.collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// Really places the gang and those who move on a copy.
fn attempt(
    case: &ExplainCase<'_>,
    moved: &[&PlacedGang],
    order: PlacingOrder,
) -> Option<Vec<GangMove>> {
    let mut cells = case.cells.clone();
    let end = |cells: &mut Cells| {
        let mut all = moved.iter();
        all.try_for_each(|running| cells.apply(CellEvent::GangEnded(running.gang.id)).ok())
    };
    if order != PlacingOrder::Aside {
        end(&mut cells)?;
    }
    if order == PlacingOrder::GangFirst {
        start(case, &mut cells, case.gang)?;
    }
    let mut moves = Vec::new();
    // The largest first: it has the fewest places to go to.
    for (number, running) in (0..).zip(moved.iter().rev()) {
        let mut gang = as_it_runs(running);
        gang.id = GangNumber(u64::MAX - number);
        let to = start(case, &mut cells, &gang)?;
        if to == running.placement {
            return None;
        }
        moves.push(GangMove {
            gang: running.gang.id,
            to,
        });
    }
    if order == PlacingOrder::Aside {
        end(&mut cells)?;
    }
    if order != PlacingOrder::GangFirst {
        start(case, &mut cells, case.gang)?;
    }
    Some(moves)
}

/// A gang that lost its quota goes on without it.
fn as_it_runs(running: &PlacedGang) -> Gang {
    let mut gang = running.gang.clone();
    if running.mode == AllocationMode::Opportunistic {
        gang.priority = crate::gang::OPPORTUNISTIC;
        gang.pinned.clear();
    }
    gang
}

/// Places a gang at nobody's cost.
fn start(case: &ExplainCase<'_>, cells: &mut Cells, gang: &Gang) -> Option<Placement> {
    let decision = decide(cells, gang, case.policy, case.now);
    let Decision::Place(grant) = decision else {
        return None;
    };
    if !grant.demoted.is_empty() {
        return None;
    }
    let (gang, placement) = (gang.clone(), grant.placement.clone());
    cells.apply(CellEvent::Started { gang, grant }).ok()?;
    Some(placement)
}
