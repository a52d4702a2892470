//! The one place that asks what time it is. Cores are told.

use std::time::{SystemTime, UNIX_EPOCH};

use muster_model::time::Time;

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
