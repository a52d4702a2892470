//! Periods in which GPU hours are counted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

/// Milliseconds of a day.
pub const DAY_MS: u64 = 24 * 3600 * 1000;

/// The period in which GPU hours are counted, in UTC. They are counted from zero in each.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LimitPeriod {
    /// From midnight on.
    Day,
    /// From Monday on.
    #[default]
    Week,
    /// From the first of the month on.
    Month,
}

/// One period, in days since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodSpan {
    /// Its first day.
    pub first_day: u64,
    /// The day after its last.
    pub end_day: u64,
}

impl PeriodSpan {
    /// When it begins, milliseconds since the epoch.
    pub const fn start_ms(&self) -> u64 {
        self.first_day.saturating_mul(DAY_MS)
    }

    /// When it is over, milliseconds since the epoch.
    pub const fn end_ms(&self) -> u64 {
        self.end_day.saturating_mul(DAY_MS)
    }
}

impl LimitPeriod {
    /// The period that this moment lies in. `now_ms`: milliseconds since the epoch.
    pub fn at(self, now_ms: u64) -> PeriodSpan {
        let today = now_ms / DAY_MS;
        let (passed, length) = match self {
            Self::Day => (0, 1),
            // The epoch was a Thursday.
            Self::Week => ((today + 3) % 7, 7),
            Self::Month => month(today).unwrap_or((today % 30, 30)),
        };
        let first_day = today.saturating_sub(passed);
        PeriodSpan {
            first_day,
            end_day: first_day.saturating_add(length),
        }
    }
}

/// Days of the month before this day, and days of the month; none after the year 9999.
fn month(day: u64) -> Option<(u64, u64)> {
    let since = Duration::days(i64::try_from(day).ok()?);
    let date = OffsetDateTime::UNIX_EPOCH.checked_add(since)?.date();
    let length = date.month().length(date.year());
    Some((u64::from(date.day()) - 1, u64::from(length)))
}

/// `2026-11-30`; the number of the day after the year 9999.
pub(crate) fn date(day: u64) -> String {
    let since = i64::try_from(day).ok().map(Duration::days);
    let date = since.and_then(|since| OffsetDateTime::UNIX_EPOCH.checked_add(since));
    match date {
        Some(date) => format!(
            "{:04}-{:02}-{:02}",
            date.year(),
            u8::from(date.month()),
            date.day()
        ),
        None => format!("day {day}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_lies_in_its_day_week_and_month() {
        for (now_s, period, first, end) in [
            // Thursday.
            (0, LimitPeriod::Day, "1970-01-01", "1970-01-02"),
            // Sunday, 2026-11-29 13:00.
            (1_795_957_200, LimitPeriod::Day, "2026-11-29", "2026-11-30"),
            (1_795_957_200, LimitPeriod::Week, "2026-11-23", "2026-11-30"),
            (
                1_795_957_200,
                LimitPeriod::Month,
                "2026-11-01",
                "2026-12-01",
            ),
            // Monday, the first moment.
            (1_795_996_800, LimitPeriod::Week, "2026-11-30", "2026-12-07"),
            // 2028-02-29 23:59:59.
            (
                1_835_481_599,
                LimitPeriod::Month,
                "2028-02-01",
                "2028-03-01",
            ),
            (
                1_835_481_600,
                LimitPeriod::Month,
                "2028-03-01",
                "2028-04-01",
            ),
        ] {
            let span = period.at(now_s * 1000);
            let told = (date(span.first_day), date(span.end_day));
            assert_eq!(told, (first.into(), end.into()), "{now_s} {period:?}");
            assert!(span.start_ms() <= now_s * 1000 && now_s * 1000 < span.end_ms());
        }
        // No moment makes it fail.
        let last = LimitPeriod::Month.at(u64::MAX);
        assert!(last.first_day <= u64::MAX / DAY_MS && u64::MAX / DAY_MS < last.end_day);
        let first = LimitPeriod::Week.at(0);
        assert_eq!((first.first_day, first.end_day), (0, 7));
    }
}
