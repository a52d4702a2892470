//! How fast a task's output is taken. Where it is not taken, the task that writes it waits: writing its log costs
//! the machine time that no limit of the task counts.

use std::time::{Duration, Instant};

/// Bytes a second that a task may write for long.
const BYTES_PER_S: u64 = 32 << 20;
/// Bytes that it may write at once after a while of less.
const BURST: u64 = 64 << 20;

/// What may be taken of the output.
#[derive(Debug)]
pub(crate) struct OutputPace {
    /// Bytes that may be taken still. Less than none after a read that was larger.
    left: i64,
    at: Instant,
}

impl OutputPace {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            left: BURST.cast_signed(),
            at: now,
        }
    }

    /// Notes that bytes were taken.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) {
        let since = now.saturating_duration_since(self.at);
        let more = since.as_micros() * u128::from(BYTES_PER_S) / 1_000_000;
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        let full = BURST.cast_signed();
        let taken = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.left = self
            .left
            .saturating_add(more)
            .min(full)
            .saturating_sub(taken);
        self.at = now;
    }

    /// How long nothing may be taken from now on. Zero: take it.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let lacking = u64::try_from(-self.left).unwrap_or_default();
        let pause = Duration::from_micros(lacking.saturating_mul(1_000_000) / BYTES_PER_S);
        pause.saturating_sub(now.saturating_duration_since(self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as much as may be had in pieces of a read, and gives the bytes of the first minute.
    fn flood(start: Instant, piece: usize) -> u64 {
        let mut pace = OutputPace::new(start);
        let (mut now, mut taken) = (start, 0);
        while now < start + Duration::from_secs(60) {
            now += pace.pause(now);
            assert_eq!(pace.pause(now), Duration::ZERO);
            pace.take(piece, now);
            taken += u64::try_from(piece).unwrap();
            now += Duration::from_micros(10);
        }
        taken
    }

    #[test]
    fn a_flood_is_slowed_to_the_rate_whatever_the_pieces() {
        for piece in [1 << 12, 1 << 18, 3_000_000] {
            let taken = flood(Instant::now(), piece);
            let rate = (taken - BURST) / 60;
            assert!(
                rate.abs_diff(BYTES_PER_S) < BYTES_PER_S / 20,
                "{piece}: {rate}"
            );
        }
    }

    #[test]
    fn a_burst_after_quiet_is_taken_at_once() {
        let start = Instant::now();
        let mut pace = OutputPace::new(start);
        pace.take(usize::try_from(BURST).unwrap() + (1 << 20), start);
        assert!(pace.pause(start) > Duration::ZERO);
        let later = start + Duration::from_secs(3600);
        pace.take(usize::try_from(BURST).unwrap(), later);
        assert_eq!(pace.pause(later), Duration::ZERO);
        pace.take(1 << 20, later);
        assert!(pace.pause(later) > Duration::ZERO);
    }
}
