//! Words to whoever waits for a long run.

use std::time::{Duration, Instant};

use muster_model::time::Time;

/// Steps between two looks at the clock of the host: a fraction of a second's work.
const LOOK_STEPS: u64 = 1 << 18;
/// Between two words.
const PAUSE: Duration = Duration::from_secs(10);

/// When was said last how far the run is.
#[derive(Debug)]
pub(crate) struct RunProgress {
    began: Instant,
    said: Instant,
}

impl RunProgress {
    /// A run that begins now.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            said: now,
        }
    }

    /// Says on standard error how far the run is, if it is long since it did.
    pub(crate) fn tell(&mut self, steps: u64, now: Time) {
        if steps.is_multiple_of(LOOK_STEPS) && self.said.elapsed() >= PAUSE {
            self.said = Instant::now();
            let (wall, now) = (self.began.elapsed().as_secs(), now.0 / 1_000_000);
            eprintln!("{wall} s: second {now} of the cluster, {steps} steps");
        }
    }
}
