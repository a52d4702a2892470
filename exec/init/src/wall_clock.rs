//! The time of day. All log stamps are UTC: a container has no time zone of its own.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Prints `YYYY-MM-DD HH:MM:SS` of milliseconds since the epoch.
pub(crate) struct TimeStamp(pub(crate) u64);

impl fmt::Display for TimeStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let (year, month, day) = civil_date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        )
    }
}

/// Year, month and day, `days` after the epoch, counted in years that begin in March so that
/// the leap day comes last.
fn civil_date(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_MARCH_OF_YEAR_0: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_MARCH_OF_YEAR_0;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_civil_dates() {
        let check = |ms, expected| assert_eq!(TimeStamp(ms).to_string(), expected);
        check(0, "1970-01-01 00:00:00");
        check(951_782_399_999, "2000-02-28 23:59:59");
        check(951_868_799_000, "2000-02-29 23:59:59");
        check(1_709_251_200_000, "2024-03-01 00:00:00");
        check(4_107_542_399_000, "2100-02-28 23:59:59");
        check(4_107_542_400_000, "2100-03-01 00:00:00");
    }
}
