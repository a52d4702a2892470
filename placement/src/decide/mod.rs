//! What becomes of one gang, given everything that is held: place it, preempt for it, let it
//! wait, or refuse it. Nothing is changed; the decision says what to apply.

mod case;
mod cheapest;
mod evict;
mod fit;
mod groups;
mod guaranteed;
mod keep;
pub(crate) mod lacking;
mod limits;
mod near;
mod need;
mod opportunistic;
mod pack;
mod policy;
mod preempt;
mod racks;
mod reason;
mod refuse;
mod repair;
mod room;
mod shortage;
mod spare;
#[cfg(test)]
mod tests;
mod turns;
mod whole;

use muster_model::time::Time;

use crate::cells::{AllocationMode, Cells, GangState};
use crate::gang::{Gang, GangNumber, Grant};
use case::GangCase;

pub(crate) use groups::{keep, split};
pub use policy::DecisionPolicy;
pub(crate) use racks::demands_rack;
pub use reason::{GangRefusal, RoomiestRack, WaitReason};
pub use repair::repairs;
pub use turns::Turns;

/// What becomes of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It starts: apply [`Started`](crate::cells::CellEvent::Started).
    Place(Grant),
    /// It starts once its victims have gone: apply
    /// [`Preempting`](crate::cells::CellEvent::Preempting) and evict them.
    Preempt {
        /// Whole gangs, by id.
        victims: Vec<GangNumber>,
        /// What it gets.
        grant: Grant,
    },
    /// It waits.
    Wait(WaitReason),
    /// It can never start.
    Refuse(GangRefusal),
}

/// Decides on a gang that does not run. One that is preempting gets the cells it claims, or
/// hears who still holds them. Gangs that are fixed until later than `now` are no victims.
pub fn decide(cells: &Cells, gang: &Gang, policy: &DecisionPolicy, now: Time) -> Decision {
    if let Err(refusal) = refuse::check(cells, gang, policy) {
        return Decision::Refuse(refusal);
    }
    if let Some(claimed) = preempting(cells, gang.id, policy, now) {
        return claimed;
    }
    match groups::split(gang) {
        Some(groups) => groups::decide(cells, gang, &groups, policy, now),
        None => groups::one(&GangCase::new(cells, gang, policy, now)),
    }
}

/// Whether a gang could ever start, whatever ends.
///
/// # Errors
/// Why not.
pub fn judge(cells: &Cells, gang: &Gang, policy: &DecisionPolicy) -> Result<(), GangRefusal> {
    refuse::check(cells, gang, policy)
}

/// Whether a preempting gang's cells can all still be used, and their machines have enough for it
/// once its victims have gone. If not, its preemption is to be cancelled and decided anew.
pub fn preemption_holds(cells: &Cells, gang: GangNumber) -> bool {
    let Some((gang, placement, GangState::Preempting)) = cells.gang(gang) else {
        return false;
    };
    let policy = DecisionPolicy::default();
    // Who was not fixed when he was chosen is not now.
    let case = GangCase::new(cells, gang, &policy, Time(u64::MAX));
    placement.leaves().all(|leaf| cells.usable(leaf))
        && evict::for_shares(&case, placement, &mut room::holders(cells, placement)).is_some()
}

fn preempting(
    cells: &Cells,
    gang: GangNumber,
    policy: &DecisionPolicy,
    now: Time,
) -> Option<Decision> {
    let running = cells.gangs.by_id(gang)?;
    if running.mode != AllocationMode::Preempting {
        return None;
    }
    let grant = Grant {
        placement: running.placement.clone(),
        ..Grant::default()
    };
    let mut victims = room::holders(cells, &grant.placement);
    let case = GangCase::new(cells, &running.gang, policy, now);
    if evict::for_shares(&case, &grant.placement, &mut victims).is_none() {
        return evict::short(&case, &grant.placement).map(Decision::Wait);
    }
    Some(match victims.is_empty() {
        true => Decision::Place(grant),
        false => Decision::Preempt { victims, grant },
    })
}
