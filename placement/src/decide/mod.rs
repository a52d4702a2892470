//! What becomes of one gang, given everything that is held: place it, preempt for it, let it
//! wait, or refuse it. Nothing is changed; the decision says what to apply.

mod fit;
mod guaranteed;
mod keep;
mod need;
mod opportunistic;
mod pack;
mod policy;
mod preempt;
mod reason;
mod refuse;
mod repair;
mod room;
mod spare;
mod turns;

use crate::cells::{Cells, Mode, State};
use crate::gang::{Gang, GangId, Grant};

pub(crate) use keep::keep;
pub use policy::Policy;
pub use reason::{Refusal, Waiting};
pub use repair::repairs;
pub use turns::Turns;

/// What becomes of a gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It starts: apply [`Started`](crate::cells::Event::Started).
    Place(Grant),
    /// It starts once its victims have gone: apply
    /// [`Preempting`](crate::cells::Event::Preempting) and evict them.
    Preempt {
        /// Whole gangs, by id.
        victims: Vec<GangId>,
        /// What it gets.
        grant: Grant,
    },
    /// It waits.
    Wait(Waiting),
    /// It can never start.
    Refuse(Refusal),
}

/// Decides on a gang that does not run. One that is preempting gets the cells it claims, or
/// hears who still holds them.
pub fn decide(cells: &Cells, gang: &Gang, policy: &Policy) -> Decision {
    if let Err(refusal) = refuse::check(cells, gang, policy) {
        return Decision::Refuse(refusal);
    }
    if let Some(claimed) = preempting(cells, gang.id) {
        return claimed;
    }
    let need = need::Need::new(gang.sizes());
    if gang.is_opportunistic() {
        return opportunistic::decide(cells, gang, &need);
    }
    guaranteed::decide(cells, gang, &need, policy)
}

/// Whether a preempting gang's cells can all still be used. If not, its preemption is to be
/// cancelled and decided anew.
pub fn preemption_holds(cells: &Cells, gang: GangId) -> bool {
    let Some((_, placement, State::Preempting)) = cells.gang(gang) else {
        return false;
    };
    placement.leaves().all(|leaf| cells.usable(leaf))
}

fn preempting(cells: &Cells, gang: GangId) -> Option<Decision> {
    let running = cells.gangs.by_id(gang)?;
    if running.mode != Mode::Preempting {
        return None;
    }
    let grant = Grant {
        placement: running.placement.clone(),
        ..Grant::default()
    };
    let victims = room::holders(cells, &grant.placement);
    Some(match victims.is_empty() {
        true => Decision::Place(grant),
        false => Decision::Preempt { victims, grant },
    })
}
