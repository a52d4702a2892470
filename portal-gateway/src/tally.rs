//! Says at most once a minute that something happened, and how often it did: what clients can
//! bring about as often as they like must not fill the disk with lines.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// From one line of a kind to the next.
const PAUSE: Duration = Duration::from_secs(60);

/// Kinds of events, by names that are fixed, which bounds their number.
#[derive(Debug, Default)]
pub(crate) struct EventTally(Mutex<BTreeMap<&'static str, TallyEntry>>);

#[derive(Debug)]
struct TallyEntry {
    said: Instant,
    since: u64,
}

impl EventTally {
    /// Counts an event. If a line is due, the number of events since the last line, this one
    /// included; the first event of a kind is said at once.
    pub(crate) fn count(&self, kind: &'static str, now: Instant) -> Option<u64> {
        // Plain numbers: a panic elsewhere cannot have left half of a change.
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(counted) = kinds.get_mut(kind) else {
            let counted = TallyEntry {
                said: now,
                since: 0,
            };
            kinds.insert(kind, counted);
            return Some(1);
        };
        counted.since += 1;
        if now < counted.said + PAUSE {
            return None;
        }
        counted.said = now;
        Some(std::mem::take(&mut counted.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_others_once_a_minute() {
        let tally = EventTally::default();
        let now = Instant::now();
        assert_eq!(tally.count("a", now), Some(1));
        assert_eq!(tally.count("a", now), None);
        assert_eq!(tally.count("b", now), Some(1));
        assert_eq!(tally.count("a", now + PAUSE / 2), None);
        assert_eq!(tally.count("a", now + PAUSE), Some(3));
        assert_eq!(tally.count("a", now + PAUSE), None);
    }
}
