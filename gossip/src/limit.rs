//! How often something may happen.

use muster_model::time::Time;

/// A token bucket: `burst` at once, then `per_s` a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit {
    /// Earliest time at which the bucket is full again.
    full_at: Time,
}

/// How a bucket is filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// How many at once.
    pub(crate) burst: u64,
    /// How many a second in the long run.
    pub(crate) per_s: u64,
}

impl Rate {
    const fn gap_us(self) -> u64 {
        1_000_000 / self.per_s
    }
}

impl Limit {
    /// A full bucket.
    pub(crate) const fn full() -> Self {
        Self { full_at: Time(0) }
    }

    /// Takes one if there is one; else says from when on there is.
    pub(crate) fn take(&mut self, now: Time, rate: Rate) -> Result<(), Time> {
        let next = self.next(now, rate);
        if next > now {
            return Err(next);
        }
        self.full_at = Time(self.full_at.0.max(now.0) + rate.gap_us());
        Ok(())
    }

    /// From when on one can be taken.
    pub(crate) fn next(&self, now: Time, rate: Rate) -> Time {
        let room = (rate.burst - 1) * rate.gap_us();
        Time(self.full_at.0.saturating_sub(room)).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Rate {
            burst: 3,
            per_s: 10,
        };
        let mut limit = Limit::full();
        let now = Time(5_000_000);
        for _ in 0..3 {
            assert_eq!(limit.take(now, rate), Ok(()));
        }
        assert_eq!(limit.take(now, rate), Err(now.plus_millis(100)));
        assert_eq!(limit.take(now.plus_millis(100), rate), Ok(()));
        assert!(limit.take(now.plus_millis(100), rate).is_err());
        assert_eq!(limit.take(now.plus_millis(10_000), rate), Ok(()));
    }
}
