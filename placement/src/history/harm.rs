//! Whose promises an event may make worse: by it a good quota cell comes to lie on a bad leaf.

use crate::cells::{AllocationMode, CellEvent, Cells};
use crate::decide::DecisionPolicy;
use crate::gang::{Gang, GangNumber};
use crate::index::at;

/// Who may lose a good quota cell to bad hardware by an event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bearer {
    Anybody,
    /// This virtual cluster, for its own gang.
    Only(String),
    Nobody,
}

/// Takes note of an event, and sees that it makes nobody's promise worse who need not bear that.
pub(super) fn apply(
    cells: &mut Cells,
    event: CellEvent,
    policy: &DecisionPolicy,
) -> Result<(), String> {
    let bearer = bearer(cells, &event, policy);
    let before: Vec<u32> = cells.quotas.iter().map(|quota| quota.bad).collect();
    cells.apply(event).map_err(|error| error.to_string())?;
    if bearer == Bearer::Anybody {
        return Ok(());
    }
    let both = before.iter().zip(&cells.quotas);
    let mut worse = both.filter(|(before, quota)| **before == 0 && quota.bad > 0);
    let owner = worse.find_map(|(_, quota)| {
        let vc = &cells.pools[at(quota.pool)].vc;
        (bearer != Bearer::Only(vc.clone())).then_some(vc)
    });
    match owner {
        Some(vc) => Err(format!(
            "a good quota cell of {vc} was exchanged for a bad one"
        )),
        None => Ok(()),
    }
}

fn bearer(cells: &Cells, event: &CellEvent, policy: &DecisionPolicy) -> Bearer {
    let preempts = |id: &GangNumber| {
        let running = cells.gangs.by_id(*id);
        running.is_none_or(|running| running.mode == AllocationMode::Preempting)
    };
    let own = |gang: &Gang| match policy.first_come {
        true => Bearer::Anybody,
        false => Bearer::Only(gang.vc.clone()),
    };
    match event {
        CellEvent::Started { gang, .. } | CellEvent::Preempting { gang, .. } => own(gang),
        CellEvent::Swapped(_) => Bearer::Nobody,
        // A cancelled preemption undoes its exchanges, whatever has failed meanwhile.
        CellEvent::GangEnded(gang)
        | CellEvent::PodEnded { gang, .. }
        | CellEvent::PodReleased { gang, .. }
            if !preempts(gang) =>
        {
            Bearer::Nobody
        }
        _ => Bearer::Anybody,
    }
}
