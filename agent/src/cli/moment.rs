//! Times and spans as people read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch, now.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-11-20 11:21:27 UTC`, from milliseconds since the epoch.
pub(super) fn date(ms: u64) -> String {
    match UNIX_EPOCH.checked_add(Duration::from_millis(ms)) {
        Some(time) if ms < LAST_MS => {
            let text = humantime::format_rfc3339_seconds(time).to_string();
            text.replace('T', " ").replace('Z', " UTC")
        }
        _ => format!("{ms} ms"),
    }
}

/// The end of the year 9999, the last that RFC 3339 can write.
const LAST_MS: u64 = 253_402_300_800_000;

/// `2h 5m`: a span in its two largest units.
pub(super) fn span(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let seconds = ms / 1000;
    let Some(first) = UNITS.iter().position(|&(unit, _)| seconds >= unit) else {
        return format!("{}.{}s", ms / 1000, ms % 1000 / 100);
    };
    let (unit, letter) = UNITS[first];
    match UNITS.get(first + 1) {
        Some(&(smaller, small)) if seconds % unit / smaller > 0 => {
            format!(
                "{}{letter} {}{small}",
                seconds / unit,
                seconds % unit / smaller
            )
        }
        _ => format!("{}{letter}", seconds / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_name_two_units() {
        for (ms, expect) in [
            (0, "0.0s"),
            (950, "0.9s"),
            (1_999, "1s"),
            (60_000, "1m"),
            (65_000, "1m 5s"),
            (7_500_000, "2h 5m"),
            (86_401_000, "1d"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(span(ms), expect, "{ms}");
        }
    }

    #[test]
    fn dates_are_utc_and_never_panic() {
        assert_eq!(date(1_795_173_687_000), "2026-11-20 11:21:27 UTC");
        assert_eq!(date(u64::MAX), format!("{} ms", u64::MAX));
    }
}
