//! Points in time as plain numbers. Cores are told the time; they never ask.

use serde::{Deserialize, Serialize};

/// Microseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time(pub u64);

impl Time {
    /// The instant `ms` milliseconds after the epoch.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1000))
    }

    /// Milliseconds since the epoch, the unit of every OpenPAI time field.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1000
    }

    /// This instant moved forward by `ms` milliseconds; saturates instead of wrapping.
    #[must_use]
    pub const fn plus_millis(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Microseconds from `earlier` to this instant, zero if `earlier` is later.
    pub const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
