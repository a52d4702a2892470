//! Why a gang waits: what blocks it, what it lacks, who holds that, and how long that may be.
//!
//! Nothing is guessed from counters. Every answer is found by deciding again on a copy of the
//! cells in which one thing is otherwise: machines healthy, gangs ended, the request less. So an
//! explanation agrees with what [`decide`] does, by construction. It costs
//! a handful of copies, and is made when somebody asks.

mod constraint;
mod earliest;
mod lack;
mod moves;
mod shortfall;
#[cfg(test)]
mod tests;
mod text;
mod trouble;
mod turn;

use muster_model::time::Time;

use crate::cells::{CellEvent, Cells};
use crate::decide::{Decision, DecisionPolicy, WaitReason, decide};
use crate::gang::{Gang, GangNumber, MachineAmount};
use crate::queue::GangQueue;

pub use constraint::Constraint;
pub use earliest::EarliestStart;
pub use lack::{GangHolder, Lacking, MissingLeaves};
pub use moves::GangMove;
pub use shortfall::{Shortfall, shortfalls};
pub use trouble::{Fault, Trouble, Troubles, troubles};

/// Why a gang waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitExplanation {
    /// The gang.
    pub gang: Gang,
    /// What blocks it.
    pub constraint: Constraint,
    /// What the decision says, if it is to wait.
    pub waiting: Option<WaitReason>,
    /// What still has to come free where that is least, and who holds it.
    pub lacking: Lacking,
    /// When it fits at the earliest if gangs end when they said. Gangs that wait as well are not
    /// looked at.
    pub earliest: EarliestStart,
    /// Gangs that could go on elsewhere right now so that it fits; empty if none were found.
    pub moves: Vec<GangMove>,
}

/// Explains a gang of the queue; none if it is not in it.
pub fn explain(
    cells: &Cells,
    queue: &GangQueue,
    gang: GangNumber,
    policy: &DecisionPolicy,
    now: Time,
) -> Option<WaitExplanation> {
    let queued = queue.gangs.iter().find(|queued| queued.gang.id == gang)?;
    let gang = &queued.gang;
    let case = ExplainCase {
        cells,
        policy,
        now,
        gang,
    };
    let constraint = constraint::find(&case, queue);
    Some(WaitExplanation {
        waiting: match case.decision() {
            Decision::Wait(why) => Some(why),
            _ => None,
        },
        lacking: lack::find(&case, &constraint),
        earliest: earliest::find(&case, &constraint),
        moves: moves::find(&case, &constraint),
        gang: gang.clone(),
        constraint,
    })
}

/// A gang that is decided on again, with something otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplainCase<'a> {
    pub(crate) cells: &'a Cells,
    pub(crate) policy: &'a DecisionPolicy,
    pub(crate) now: Time,
    pub(crate) gang: &'a Gang,
}

impl ExplainCase<'_> {
    fn decision(&self) -> Decision {
        decide(self.cells, self.gang, self.policy, self.now)
    }

    /// Whether it starts, at once or when others have given way.
    fn fits(&self) -> bool {
        starts(&self.decision())
    }

    fn fits_in(&self, cells: &Cells) -> bool {
        ExplainCase { cells, ..*self }.fits()
    }

    fn fits_as(&self, gang: &Gang) -> bool {
        ExplainCase { gang, ..*self }.fits()
    }
}

fn starts(decision: &Decision) -> bool {
    matches!(decision, Decision::Place(_) | Decision::Preempt { .. })
}

/// The cells once these gangs have ended.
fn without(cells: &Cells, gangs: impl Iterator<Item = GangNumber>) -> Cells {
    let mut cells = cells.clone();
    for gang in gangs {
        note(&mut cells, CellEvent::GangEnded(gang));
    }
    cells
}

/// The cells once everything has ended.
fn emptied(cells: &Cells) -> Cells {
    without(cells, cells.gangs().map(|(gang, _, _)| gang.id))
}

/// The cells if every virtual cluster had what it was promised.
fn all_bound(cells: &Cells) -> Cells {
    let mut bound = cells.clone();
    bound.bind_all();
    bound
}

/// The cells with every machine and device in order.
fn healed(cells: &Cells) -> Cells {
    let mut healed = cells.clone();
    for node in cells.node_names() {
        let (node, healthy, on) = (node.to_owned(), true, false);
        for leaf in cells.leaves_on(&node) {
            let device = cells.address(leaf).1;
            let node = node.clone();
            note(
                &mut healed,
                CellEvent::DeviceHealth {
                    node,
                    device,
                    healthy,
                },
            );
        }
        note(
            &mut healed,
            CellEvent::Cordon {
                node: node.clone(),
                on,
            },
        );
        note(&mut healed, CellEvent::NodeHealth { node, healthy });
    }
    healed
}

/// The cells with machines that have cores, memory and ports without end.
fn boundless(cells: &Cells) -> Cells {
    let mut boundless = cells.clone();
    let amount = MachineAmount {
        cpu: u32::MAX,
        memory_mb: u64::MAX,
        ports: u32::MAX,
    };
    for node in cells.node_names() {
        let node = node.to_owned();
        note(&mut boundless, CellEvent::Capacity { node, amount });
    }
    boundless
}

/// Tells a copy something that is so by construction.
fn note(cells: &mut Cells, event: CellEvent) {
    let done = cells.apply(event);
    debug_assert!(done.is_ok(), "a copy of the cells refuses it: {done:?}");
}
