//! One decision: who asks for what, of which cells, and what goes anyway.

use std::collections::BTreeSet;

use muster_model::time::Time;

use super::DecisionPolicy;
use super::limits::MachineLimits;
use super::need::Need;
use crate::cells::{AllocationMode, Cells, PlacedGang};
use crate::gang::Gang;

/// A gang, or those of its members that ask for one leaf type.
pub(super) struct GangCase<'a> {
    pub(super) cells: &'a Cells,
    pub(super) gang: &'a Gang,
    pub(super) need: Need,
    pub(super) policy: &'a DecisionPolicy,
    pub(super) now: Time,
    /// What the gang's other members take of machines, and what comes back there.
    pub(super) limits: MachineLimits,
    /// Gangs that go anyway, by slot: the gang's other members need their cells.
    pub(super) going: BTreeSet<u32>,
    /// The only gangs of its cluster that may go, by slot; none: whichever may.
    pub(super) only: Option<&'a BTreeSet<u32>>,
    /// Whether gangs that are fixed may go all the same: to see whether only they are in the way.
    pub(super) frees_fixed: bool,
}

impl<'a> GangCase<'a> {
    pub(super) fn new(
        cells: &'a Cells,
        gang: &'a Gang,
        policy: &'a DecisionPolicy,
        now: Time,
    ) -> Self {
        Self {
            cells,
            gang,
            need: Need::of(gang),
            policy,
            now,
            limits: MachineLimits::default(),
            going: BTreeSet::new(),
            only: None,
            frees_fixed: false,
        }
    }

    /// The same once more, to be asked a little differently.
    pub(super) fn again(&self) -> Self {
        self.needing(self.need.clone())
    }

    /// The same for another need.
    pub(super) fn needing(&self, need: Need) -> Self {
        Self {
            need,
            limits: self.limits.clone(),
            going: self.going.clone(),
            ..*self
        }
    }

    /// Whether a gang may be evicted, or lose its quota, for this one.
    pub(super) fn may_evict(&self, running: &PlacedGang) -> bool {
        match running.mode {
            AllocationMode::Opportunistic => !self.gang.is_opportunistic() && !running.gang.stays,
            AllocationMode::Guaranteed => self.is_below(running) && !self.is_fixed(running),
            AllocationMode::Preempting => self.is_below(running),
        }
    }

    fn is_below(&self, running: &PlacedGang) -> bool {
        running.gang.vc == self.gang.vc && running.gang.priority < self.gang.priority
    }

    /// Whether a gang of its own cluster must be left alone for now.
    pub(super) fn is_fixed(&self, running: &PlacedGang) -> bool {
        let until = running.gang.fixed_until;
        running.mode == AllocationMode::Guaranteed
            && !self.frees_fixed
            && until.is_some_and(|until| until > self.now)
    }
}
