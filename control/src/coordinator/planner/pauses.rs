//! When the pauses of gangs end that are tried again later.

use std::collections::BTreeMap;

use muster_model::time::Time;

use crate::coordinator::context::Context;
use crate::gang::GangId;
use crate::vc::Current;
use crate::vc::attempt::Pause;

/// The pauses that were looked at, by the clock that nobody sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses {
    /// When the first ends.
    next: Option<Time>,
    ends: BTreeMap<GangId, (Pause, Time)>,
}

impl Pauses {
    /// When the first ends that was noted since [`Pauses::look_anew`].
    pub(super) const fn next(&self) -> Option<Time> {
        self.next
    }

    /// All that waits is looked at again.
    pub(super) const fn look_anew(&mut self) {
        self.next = None;
    }

    pub(super) fn forget(&mut self, gang: &GangId) {
        self.ends.remove(gang);
    }

    /// Something is to be looked at then.
    pub(super) fn wait_until(&mut self, at: Time) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// When a gang's pause ends: no later than when it was first looked at in this term and as long again.
    /// The leader that committed its beginning may have had a wrong clock.
    pub(super) fn note(&mut self, context: &Context<'_>, current: &Current<'_>) -> Time {
        let end = self.end(context, current);
        if end > context.now {
            let gang = current.run.gang.clone();
            self.ends.insert(gang, (current.gang.pause, end));
        } else {
            self.ends.remove(&current.run.gang);
        }
        end
    }

    /// The same, of one that need not be noted.
    pub(super) fn end(&self, context: &Context<'_>, current: &Current<'_>) -> Time {
        let pause = current.gang.pause;
        let left = pause.until_ms.saturating_sub(context.wall.as_millis());
        let end = context.now.plus_millis(left.min(pause.for_ms));
        let noted = self.ends.get(&current.run.gang);
        match noted.filter(|(of, _)| *of == pause) {
            Some((_, noted)) => end.min(*noted),
            None => end,
        }
    }
}
