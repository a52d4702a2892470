//! A machine's clocks: one that nobody sets, up to a percent fast or slow, and one that shows the time
//! of day, which faults set as they like.

use muster_model::time::Time;

use crate::sim::random::Random;

/// When the world begins, by clocks that are right, ms since the epoch.
const EPOCH_MS: u64 = 1_800_000_000_000;

/// A machine's clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineClocks {
    /// In thousandths of the world's rate.
    rate: u64,
    /// When the machine was booted, by the world's clock, and what its clock showed then.
    booted: Time,
    offset: u64,
    /// The time of day is so much ahead, µs.
    pub(super) ahead_us: i64,
}

impl MachineClocks {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            rate: 990 + random.below(21),
            booted: Time(0),
            // Booted up to a month ago.
            offset: random.below(2_592_000_000_000),
            ahead_us: 0,
        }
    }

    /// Since the machine was booted.
    pub(super) const fn boot(self, now: Time) -> Time {
        Time(self.offset + now.micros_since(self.booted) * self.rate / 1000)
    }

    /// The world's time at which that has come.
    pub(super) const fn when(self, boot: Time) -> Time {
        let passed = (boot.0.saturating_sub(self.offset) * 1000).div_ceil(self.rate);
        Time(self.booted.0 + passed)
    }

    /// The machine boots now.
    pub(super) const fn reboot(&mut self, now: Time) {
        self.booted = now;
        self.offset = 0;
    }

    /// The time of day.
    pub(super) const fn wall(self, now: Time) -> Time {
        Time((now.0 + EPOCH_MS * 1000).saturating_add_signed(self.ahead_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_clock_shows_comes_when_it_says() {
        let mut clock = MachineClocks::new(&mut Random::new(7, 1));
        clock.ahead_us = -3_000_000;
        for us in [0, 1, 999, 1_000_001, 600_000_007] {
            let now = Time(us);
            assert!(clock.boot(clock.when(clock.boot(now))) >= clock.boot(now));
            assert!(clock.when(clock.boot(now)).0.abs_diff(us) <= 2);
        }
        clock.reboot(Time(5_000_000));
        for us in [5_000_000, 5_000_001, 9_999_999] {
            let now = Time(us);
            assert!(clock.boot(now) < Time(6_000_000));
            assert!(clock.when(clock.boot(now)).0.abs_diff(us) <= 2);
        }
    }
}
