//! Who gets its turn when, and who may pass whom.

const HOUR_MS: u64 = 3600 * 1000;

/// Whose turn it is among gangs of one priority, and what is kept for gangs that were passed.
///
/// No rule reads how long a gang will run: nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Whether a gang that must wait stops all behind it of its cluster, and opportunistic ones.
    pub is_strict: bool,
    /// Whether gangs that ask for fewer leaf cells come first, while they are not overdue: they
    /// are many, and they fit where others don't.
    pub is_smaller_first: bool,
    /// Whether, of gangs that ask for as many, those come first whose user has the least in his
    /// cluster, counting what he asked for before.
    pub is_fair: bool,
    /// After which wait a gang is overdue, milliseconds; none: never. From then on it comes
    /// before its equals, and leaf cells are kept for it.
    pub overdue_after_ms: Option<u64>,
    /// The same for a gang that needs several machines, because smaller ones pass it for as long
    /// as they come. The larger its share of its cluster's quota, the later: half of the quota,
    /// half of [`overdue_after_ms`](Self::overdue_after_ms).
    pub wide_overdue_after_ms: Option<u64>,
    /// How much of a cluster's quota is kept for overdue gangs at a time, percent. For the oldest
    /// one its cells are kept in any case; who gets none only comes first.
    pub kept_percent: u64,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            is_strict: false,
            is_smaller_first: true,
            is_fair: true,
            overdue_after_ms: Some(24 * HOUR_MS),
            wide_overdue_after_ms: Some(HOUR_MS),
            kept_percent: 25,
        }
    }
}

impl Turns {
    /// After which wait a gang is overdue that asks for `share` of its cluster's quota, both in
    /// leaves.
    pub(crate) fn overdue_ms(&self, is_wide: bool, share: (u64, u64)) -> Option<u64> {
        let Some(wide_ms) = self.wide_overdue_after_ms.filter(|_| is_wide) else {
            return self.overdue_after_ms;
        };
        let by_share = |ms: u64| ms.saturating_mul(share.0) / share.1.max(1);
        Some(wide_ms.max(self.overdue_after_ms.map_or(0, by_share)))
    }

    /// First come, first served; who waits stops everybody behind.
    pub const fn strict() -> Self {
        Self {
            is_strict: true,
            ..Self::backfill()
        }
    }

    /// First come, first served; who does not fit is passed, for ever if need be.
    pub const fn backfill() -> Self {
        Self {
            is_strict: false,
            is_smaller_first: false,
            is_fair: false,
            overdue_after_ms: None,
            wide_overdue_after_ms: None,
            kept_percent: 0,
        }
    }
}
