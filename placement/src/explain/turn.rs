//! Who is before a gang that would fit.

use super::{Constraint, ExplainCase};
use crate::cells::{CellEvent, Cells};
use crate::decide::{Decision, WaitReason};
use crate::gang::{GangNumber, Grant, Placement};
use crate::plan::{Plan, plan};
use crate::queue::GangQueue;

/// Why a gang that would start if it were alone does not start with the whole queue.
pub(super) fn find(case: &ExplainCase<'_>, queue: &GangQueue) -> Constraint {
    let plan = plan(case.cells, queue, case.policy, case.now);
    let Some(own) = plan.decisions.iter().position(|d| d.0 == case.gang.id) else {
        return Constraint::Turn(None);
    };
    if let Decision::Wait(WaitReason::Behind(gang)) = &plan.decisions[own].1 {
        return Constraint::Turn(Some(*gang));
    }
    if !matches!(plan.decisions[own].1, Decision::Wait(_)) {
        return Constraint::Turn(None);
    }
    let mut cells = case.cells.clone();
    for (id, decision) in &plan.decisions[..own] {
        carry_out(&mut cells, queue, *id, decision);
        if !case.fits_in(&cells) {
            return Constraint::Turn(Some(*id));
        }
    }
    kept(case, queue, (cells, &plan, own)).map_or(Constraint::Turn(None), Constraint::Kept)
}

/// The first gang for which so much is kept that nothing is left.
fn kept(
    case: &ExplainCase<'_>,
    queue: &GangQueue,
    (mut cells, plan, own): (Cells, &Plan, usize),
) -> Option<GangNumber> {
    let earlier = |id: GangNumber| plan.decisions[..own].iter().any(|d| d.0 == id);
    let mut kept = plan.kept.iter().filter(|kept| earlier(kept.0));
    let blocker = kept.find(|(id, placement)| {
        claim(&mut cells, queue, *id, placement);
        !case.fits_in(&cells)
    });
    blocker.map(|kept| kept.0)
}

fn claim(cells: &mut Cells, queue: &GangQueue, id: GangNumber, placement: &Placement) {
    let grant = Grant {
        placement: placement.clone(),
        ..Grant::default()
    };
    let decision = Decision::Preempt {
        victims: Vec::new(),
        grant,
    };
    carry_out(cells, queue, id, &decision);
}

fn carry_out(cells: &mut Cells, queue: &GangQueue, id: GangNumber, decision: &Decision) {
    let queued = queue.gangs.iter().find(|queued| queued.gang.id == id);
    let Some(gang) = queued.map(|queued| queued.gang.clone()) else {
        return;
    };
    let known = cells.gang(id).is_some();
    let event = match decision.clone() {
        Decision::Place(grant) => CellEvent::Started { gang, grant },
        Decision::Preempt { grant, .. } if !known => CellEvent::Preempting { gang, grant },
        Decision::Preempt { .. } | Decision::Wait(_) | Decision::Refuse(_) => return,
    };
    // What is kept around may make a later decision impossible here; it changes nothing then.
    let _refused = cells.apply(event);
}
