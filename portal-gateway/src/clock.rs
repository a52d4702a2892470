//! The wall clock, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch; 0 if the machine's clock stands before it.
pub(crate) fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
