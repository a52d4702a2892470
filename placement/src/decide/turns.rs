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
    /// After which wait a gang that needs several machines is overdue, milliseconds; none: never.
    /// Such gangs would else be passed for as long as smaller ones come.
    pub wide_overdue_after_ms: Option<u64>,
    /// The same for every other gang.
    pub overdue_after_ms: Option<u64>,
    /// For how many overdue gangs of a cluster leaf cells are kept at a time, the oldest ones.
    /// The others only come first.
    pub kept_max: usize,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            is_strict: false,
            is_smaller_first: true,
            is_fair: true,
            wide_overdue_after_ms: Some(HOUR_MS),
            overdue_after_ms: Some(24 * HOUR_MS),
            kept_max: 4,
        }
    }
}

impl Turns {
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
            wide_overdue_after_ms: None,
            overdue_after_ms: None,
            kept_max: 0,
        }
    }
}
