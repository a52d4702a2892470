//! Times and their percentiles.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

/// Durations up to ten minutes, to the microsecond, at three digits.
#[derive(Clone, Debug)]
pub(crate) struct Sample(Histogram<u64>);

impl Sample {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_bounds(1, 600_000_000, 3)?))
    }

    pub(crate) fn add(&mut self, time: Duration) {
        self.0
            .saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    pub(crate) fn join(&mut self, other: &Self) -> Result<()> {
        self.0.add(&other.0)?;
        Ok(())
    }

    /// The quantile in milliseconds.
    pub(crate) fn ms(&self, quantile: f64) -> f64 {
        round(self.0.value_at_quantile(quantile) as f64 / 1000.0)
    }
}

/// Three digits after the point are more than any run repeats.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
