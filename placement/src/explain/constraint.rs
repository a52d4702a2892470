//! What blocks a gang: the first thing without which it would start.

use muster_model::time::Time;

use super::{ExplainCase, Troubles, all_bound, boundless, emptied, healed, starts, troubles, turn};
use crate::decide::{Decision, GangRefusal, WaitReason, decide};
use crate::gang::{Gang, GangMember, GangNumber};
use crate::queue::GangQueue;

/// What blocks a gang. From [`Topology`](Self::Topology) to [`Fragmented`](Self::Fragmented) each is
/// found by taking it away: then the gang starts. The last two are what is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// It can never start as it is.
    Refused(GangRefusal),
    /// It is not there even when everything has ended and every machine is in order.
    TooLarge,
    /// Its virtual cluster has not all the cells yet that it was promised.
    Unbound,
    /// Others have been told to give way to it.
    GivingWay(Vec<GangNumber>),
    /// It fits, but this gang is before it: it takes the cells, or may not be passed. None: it is
    /// its turn.
    Turn(Option<GangNumber>),
    /// It fits, but cells are kept for this gang, which was passed for too long.
    Kept(GangNumber),
    /// Where it asks to be. It would start elsewhere.
    Topology,
    /// Machines or devices are sick, away or cordoned.
    Hardware {
        /// What cannot be used of what it may use.
        troubles: Troubles,
        /// Whether nothing but that is in the way; else others hold the rest.
        alone: bool,
    },
    /// Cores, memory or ports of the machines, not their leaves.
    Machines,
    /// Less important gangs of its cluster that may not be evicted before this time.
    Fixed(Time),
    /// Enough leaves are idle, but not together.
    Fragmented,
    /// Gangs of its virtual cluster use the quota.
    Quota,
    /// Nothing idle is left for opportunistic gangs.
    Idle,
}

impl Constraint {
    /// One word for it, in lower case.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::TooLarge => "too large",
            Self::Unbound => "binding",
            Self::GivingWay(_) => "victims",
            Self::Turn(_) => "turn",
            Self::Kept(_) => "kept",
            Self::Topology => "topology",
            Self::Hardware { .. } => "hardware",
            Self::Machines => "machines",
            Self::Fixed(_) => "minimum run time",
            Self::Fragmented => "fragmentation",
            Self::Quota => "quota",
            Self::Idle => "idle cells",
        }
    }
}

pub(super) fn find(case: &ExplainCase<'_>, queue: &GangQueue) -> Constraint {
    let why = match case.decision() {
        Decision::Refuse(why) => return Constraint::Refused(why),
        Decision::Preempt { victims, .. } => return Constraint::GivingWay(victims),
        Decision::Place(_) => return turn::find(case, queue),
        Decision::Wait(why) => why,
    };
    let empty = emptied(case.cells);
    if !case.fits_in(&empty) {
        return match case.fits_in(&healed(&empty)) {
            true => hardware(case, true),
            false if matches!(why, WaitReason::Unbound { .. }) => Constraint::Unbound,
            // What stands for machines that were not heard yet is bound to nobody.
            false if case.fits_in(&all_bound(&healed(&empty))) => hardware(case, true),
            false => Constraint::TooLarge,
        };
    }
    if without_topology(case.gang).is_some_and(|gang| case.fits_as(&gang)) {
        return Constraint::Topology;
    }
    if case.fits_in(&boundless(case.cells)) {
        return Constraint::Machines;
    }
    if case.fits_in(&all_bound(case.cells)) {
        return Constraint::Unbound;
    }
    if case.fits_in(&healed(case.cells)) {
        return hardware(case, false);
    }
    if let Some(until) = fixed_until(case) {
        return Constraint::Fixed(until);
    }
    if case.fits_as(&crumbled(case.gang)) {
        return Constraint::Fragmented;
    }
    match case.gang.is_opportunistic() {
        true => Constraint::Idle,
        false => Constraint::Quota,
    }
}

fn hardware(case: &ExplainCase<'_>, alone: bool) -> Constraint {
    let troubles = troubles(case.cells, case.gang);
    Constraint::Hardware { troubles, alone }
}

/// The gang without its wishes where to be, if it has one that is required.
fn without_topology(gang: &Gang) -> Option<Gang> {
    let required = |member: &GangMember| member.near.is_some_and(|near| near.required);
    gang.members.iter().any(required).then(|| {
        let mut gang = gang.clone();
        for member in &mut gang.members {
            member.near = None;
        }
        gang
    })
}

/// When gangs that may be evicted then let it start, if nothing else does.
fn fixed_until(case: &ExplainCase<'_>) -> Option<Time> {
    let mut times: Vec<Time> = case
        .cells
        .gangs()
        .filter_map(|(gang, _, _)| gang.fixed_until.filter(|_| gang.vc == case.gang.vc))
        .filter(|until| *until > case.now)
        .collect();
    times.sort_unstable();
    times.dedup();
    let then = |until: &Time| starts(&decide(case.cells, case.gang, case.policy, *until));
    times.into_iter().find(then)
}

/// As many leaves, but each wherever it is.
fn crumbled(gang: &Gang) -> Gang {
    let mut gang = gang.clone();
    for member in &mut gang.members {
        member.pods = member.pods.saturating_mul(member.leaves);
        member.leaves = 1;
        member.near = None;
        member.share = crate::gang::MachineAmount::NONE;
    }
    gang
}
