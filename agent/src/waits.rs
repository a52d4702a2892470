//! How long the parts of this agent have been busy with what they do now. An agent that answers
//! its watchers while its disk, its engine or its driver hangs must not look well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_gossip::record;

/// What is measured of one agent. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentWaits {
    /// From one answer of the loops that own the ledger and the log to the next.
    pub(crate) loops: Calls,
    /// Questions to the container engine.
    pub(crate) engine: Calls,
    /// Questions to device drivers.
    pub(crate) device: Calls,
}

impl AgentWaits {
    /// The ages as watchers are told them.
    pub(crate) fn ages(&self) -> record::SelfHealth {
        let ms = |calls: &Calls| u32::try_from(calls.age().as_millis()).unwrap_or(u32::MAX);
        record::SelfHealth {
            loop_age_ms: ms(&self.loops),
            engine_age_ms: ms(&self.engine),
            device_age_ms: ms(&self.device),
        }
    }
}

/// Calls of one kind that are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<OpenCalls>>);

#[derive(Debug, Default)]
struct OpenCalls {
    since: BTreeMap<u64, Instant>,
    number: u64,
}

impl Calls {
    /// One more, until what is returned is dropped.
    pub(crate) fn begin(&self) -> TimedCall {
        let mut open = self.open();
        open.number += 1;
        let number = open.number;
        open.since.insert(number, Instant::now());
        drop(open);
        TimedCall {
            calls: self.clone(),
            number,
        }
    }

    /// How long the oldest has taken so far; zero if there is none.
    pub(crate) fn age(&self) -> Duration {
        let oldest = self.open().since.values().next().copied();
        oldest.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn open(&self) -> MutexGuard<'_, OpenCalls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way.
#[derive(Debug)]
pub(crate) struct TimedCall {
    calls: Calls,
    number: u64,
}

impl Drop for TimedCall {
    fn drop(&mut self) {
        self.calls.open().since.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_call_that_is_not_over_counts() {
        let health = AgentWaits::default();
        assert_eq!(health.ages(), record::SelfHealth::default());
        let first = health.engine.begin();
        while health.engine.age().is_zero() {}
        let second = health.engine.clone().begin();
        let ages = health.ages();
        assert_eq!((ages.loop_age_ms, ages.device_age_ms), (0, 0));
        let older = health.engine.open().since.values().next().copied();
        drop(first);
        let younger = health.engine.open().since.values().next().copied();
        assert!(older < younger, "the second is left");
        drop(second);
        assert_eq!(health.engine.age(), Duration::ZERO);
    }
}
