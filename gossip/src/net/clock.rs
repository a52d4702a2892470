//! Monotonic time for cores.

use std::time::Duration;

use muster_model::time::Time;
use tokio::time::Instant;

/// Tells cores the time: microseconds of a clock that only goes forward, whatever happens to the
/// wall clock.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: Instant,
}

/// Where the clock starts, so that cores may look back from the first moment on.
const START: Time = Time::from_millis(60_000);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl MonotonicClock {
    /// Now.
    pub fn now(&self) -> Time {
        let micros = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        Time(START.0.saturating_add(micros))
    }

    /// When this clock will show `time`; at once for what is over.
    pub fn instant(&self, time: Time) -> Instant {
        self.start + Duration::from_micros(time.micros_since(START))
    }
}
