//! When a gang fits at the earliest, by what others have declared.

use muster_model::time::Time;

use super::{Constraint, ExplainCase, note, starts};
use crate::cells::CellEvent;
use crate::decide::decide;
use crate::gang::{Gang, GangNumber};

/// When a gang fits at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarliestStart {
    /// Now: only its turn is missing, or others are on their way out.
    Now,
    /// Then, if everybody ends when he said.
    At(Time),
    /// Somebody in the way did not say when he ends, or what is in the way is no gang.
    Unknown,
    /// Never.
    Never,
}

pub(super) fn find(case: &ExplainCase<'_>, constraint: &Constraint) -> EarliestStart {
    match constraint {
        Constraint::Refused(_) | Constraint::TooLarge => return EarliestStart::Never,
        Constraint::GivingWay(_) | Constraint::Turn(_) | Constraint::Kept(_) => {
            return EarliestStart::Now;
        }
        Constraint::Hardware { alone: true, .. } => return EarliestStart::Unknown,
        _ => {}
    }
    let mut cells = case.cells.clone();
    let changes = changes(case);
    for at_once in changes.chunk_by(|a, b| a.0 == b.0) {
        for (_, gang) in at_once {
            if let Some(gang) = gang {
                note(&mut cells, CellEvent::GangEnded(*gang));
            }
        }
        let then = at_once.first().map_or(case.now, |change| change.0);
        if starts(&decide(&cells, case.gang, case.policy, then)) {
            return EarliestStart::At(then);
        }
    }
    EarliestStart::Unknown
}

/// What will happen by itself, in order: gangs end, or may be evicted from then on. Who has
/// overrun his word has not said when he ends.
fn changes(case: &ExplainCase<'_>) -> Vec<(Time, Option<GangNumber>)> {
    let mut changes = Vec::new();
    for (gang, _, _) in case.cells.gangs() {
        let ends = gang.ends_by.map(|at| (at, Some(gang.id)));
        let fixed = gang.fixed_until.filter(|_| may_be_victim(case, gang));
        let fixed = fixed.map(|at| (at, None));
        changes.extend(ends.into_iter().chain(fixed));
    }
    changes.retain(|change| change.0 > case.now);
    changes.sort_unstable_by_key(|change| change.0);
    changes
}

fn may_be_victim(case: &ExplainCase<'_>, gang: &Gang) -> bool {
    gang.vc == case.gang.vc && gang.priority < case.gang.priority
}
