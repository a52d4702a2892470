//! What every part is told with an input.

use muster_model::time::Time;

use super::inventory::Terms;
use super::options::CoordinatorOptions;
use crate::fence::Term;
use crate::vc::VcState;

/// The state, the time and the leadership that an input is handled with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) options: &'a CoordinatorOptions,
    pub(super) state: &'a VcState,
    /// The newest term that this node was elected in.
    pub(super) term: Option<Term>,
    /// An entry of that term was applied.
    pub(super) leads: bool,
    /// By the clock that nobody sets.
    pub(super) now: Time,
    /// The time of day.
    pub(super) wall: Time,
}

impl Context<'_> {
    /// Whether the virtual cluster was recovered: entries that its earlier groups committed may be lost.
    pub(super) const fn is_recovered(&self) -> bool {
        self.options.generation > 1
    }

    /// What gangs are placed by now.
    pub(super) const fn terms(&self) -> Terms {
        Terms {
            now: self.wall,
            min_run_ms: self.options.policy.min_run_ms,
        }
    }
}
