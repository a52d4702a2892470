//! When to dial again. Pure: what looks random comes from a seed.

use std::time::Duration;

/// The first wait, in ms.
const FIRST_MS: u64 = 50;
/// The longest wait, in ms: a peer that comes back is found within about a second.
const CAP_MS: u64 = 1_000;
/// The longest wait after a refusal, in ms.
const REFUSED_MS: u64 = 5_000;

/// How long to wait before each next try: twice as long each time, up to a cap, spread over half
/// of it so that many who lost the same peer do not come at once.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    next_ms: u64,
    state: u64,
}

impl Backoff {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            next_ms: FIRST_MS,
            state: seed,
        }
    }

    /// The wait after another failure.
    pub(super) fn failed(&mut self) -> Duration {
        let wait = self.next_ms;
        self.next_ms = (wait * 2).min(CAP_MS);
        self.spread(wait)
    }

    /// The wait after the other side said no.
    pub(super) fn refused(&mut self) -> Duration {
        self.spread(REFUSED_MS)
    }

    /// All is well again.
    pub(super) const fn reset(&mut self) {
        self.next_ms = FIRST_MS;
    }

    fn spread(&mut self, ms: u64) -> Duration {
        // Weyl sequence: enough to keep peers apart.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let half = ms / 2;
        Duration::from_millis(half + (self.state >> 32) % (half + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_differ() {
        let waits = |seed| {
            let mut backoff = Backoff::new(seed);
            (0..8).map(|_| backoff.failed()).collect::<Vec<_>>()
        };
        let one = waits(1);
        assert!(one[0] <= Duration::from_millis(FIRST_MS));
        assert!(
            one.iter()
                .all(|wait| *wait <= Duration::from_millis(CAP_MS))
        );
        assert!(one[7] >= Duration::from_millis(CAP_MS / 2));
        assert_ne!(one, waits(u64::MAX / 3));
    }
}
