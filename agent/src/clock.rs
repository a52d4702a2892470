//! The one place that asks what time it is. Cores are told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_model::time::Time;
use nix::time::{ClockId, clock_gettime};

/// Now, by this machine's clock.
pub(crate) fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Seconds since the epoch, as tokens count them.
pub(crate) fn now_s() -> u64 {
    now().as_millis() / 1000
}

/// Time since this machine was booted, sleep included. Nobody sets this clock.
pub(crate) fn since_boot() -> Time {
    let passed = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from);
    Time(u64::try_from(passed.as_micros()).unwrap_or(u64::MAX))
}
