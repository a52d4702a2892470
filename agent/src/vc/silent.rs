//! Virtual clusters that did not answer: whoever asks all of them waits less for those.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_model::id::VcName;
use tokio::time::Instant;

/// How long the others wait for one of several virtual clusters: an election takes less than a second.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long they wait for one that did not answer just now.
const SILENT_PATIENCE: Duration = Duration::from_millis(500);
/// For so long one counts as silent after it did not answer.
const SILENT: Duration = Duration::from_secs(10);

/// Virtual clusters that did not answer, and since when that counts.
#[derive(Debug, Default)]
pub(super) struct SilentVcs(Mutex<BTreeMap<VcName, Instant>>);

impl SilentVcs {
    /// How long one is waited for.
    pub(super) fn patience(&self, vc: &VcName, now: Instant) -> Duration {
        let since = self.lock().get(vc).copied();
        match since.is_some_and(|since| now.duration_since(since) < SILENT) {
            true => SILENT_PATIENCE,
            false => PATIENCE,
        }
    }

    /// It answered in time.
    pub(super) fn answers(&self, vc: &VcName) {
        self.lock().remove(vc);
    }

    /// It did not. Whoever asks it with little patience does not make it silent for longer.
    pub(super) fn is_late(&self, vc: &VcName, now: Instant) {
        let mut silent = self.lock();
        let since = silent.entry(vc.clone()).or_insert(now);
        if now.duration_since(*since) >= SILENT {
            *since = now;
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<VcName, Instant>> {
        // Each change leaves it whole, so a panic elsewhere left no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(name: &str) -> VcName {
        name.parse().unwrap()
    }

    #[test]
    fn one_that_was_silent_is_waited_for_less_until_it_answers() {
        let (silent, now) = (SilentVcs::default(), Instant::now());
        assert_eq!(silent.patience(&vc("a"), now), PATIENCE);
        silent.is_late(&vc("a"), now);
        assert_eq!(silent.patience(&vc("a"), now), SILENT_PATIENCE);
        assert_eq!(silent.patience(&vc("b"), now), PATIENCE);
        silent.answers(&vc("a"));
        assert_eq!(silent.patience(&vc("a"), now), PATIENCE);
    }

    #[test]
    fn now_and_then_it_is_asked_with_patience_again() {
        let (silent, first) = (SilentVcs::default(), Instant::now());
        silent.is_late(&vc("a"), first);
        silent.is_late(&vc("a"), first + SILENT / 2);
        let again = first + SILENT;
        assert_eq!(silent.patience(&vc("a"), again), PATIENCE);
        silent.is_late(&vc("a"), again);
        assert_eq!(silent.patience(&vc("a"), again), SILENT_PATIENCE);
    }
}
