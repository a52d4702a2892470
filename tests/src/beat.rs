//! Tasks that say when they are there, by the kernel's time since boot, which all containers of a machine
//! share: so it is known whether two attempts were there at once.

use anyhow::{Context as _, Result};

use crate::net::Lan;
use crate::site::said;

/// That a task was there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// The number of its node.
    pub node: usize,
    /// The attempt of its job.
    pub attempt: u32,
    /// When, seconds since boot.
    pub at_s: f64,
}

/// Commands that say with `mark` that they are there, five times a second: in the first attempt for ever,
/// in the next ones for a moment.
pub fn commands(mark: &str) -> String {
    format!(
        "n=0
while [ $FC_FRAMEWORK_ATTEMPT_ID = 0 ] || [ $n -lt 5 ]; do
  echo {mark} $FC_FRAMEWORK_ATTEMPT_ID $(cut -d' ' -f1 /proc/uptime)
  n=$((n + 1)); sleep 0.2
done"
    )
}

/// What such commands have said so far.
///
/// # Errors
/// When they said something else.
pub fn beats(lan: &Lan, mark: &str) -> Result<Vec<Beat>> {
    let read = |(node, line): (usize, String)| {
        let mut words = line.split(' ').skip(1);
        let attempt = words.next().context("no attempt")?.parse()?;
        let at_s = words.next().context("no time")?.parse()?;
        Ok(Beat {
            node,
            attempt,
            at_s,
        })
    };
    said(lan, mark).into_iter().map(read).collect()
}

/// The time by the same clock, seconds.
///
/// # Errors
/// When the kernel does not say.
pub fn now_s() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    Ok(text.split(' ').next().context("no time")?.parse()?)
}
