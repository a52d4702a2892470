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

/// A span that a user gives: `60` is seconds; `90s`, `15m`, `2h 30m` say their unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().ok().filter(|seconds| *seconds <= SECONDS_MAX);
        let seconds = seconds.ok_or("that is too long: give at most a hundred years")?;
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write seconds (60), or a unit: 90s, 15m, 2h, 1d"))
}

/// A hundred years.
const SECONDS_MAX: u64 = 100 * 365 * 86_400;

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
    fn a_plain_number_is_seconds() {
        for (text, seconds) in [
            ("60", 60),
            ("0", 0),
            (" 60 ", 60),
            ("60s", 60),
            ("5m", 300),
            ("1h 30m", 5_400),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "x", "-1", "60 x", "1.5", "99999999999999999999"] {
            let error = duration(text).unwrap_err();
            assert!(
                error.contains("seconds") || error.contains("too long"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn dates_are_utc_and_never_panic() {
        assert_eq!(date(1_795_173_687_000), "2026-11-20 11:21:27 UTC");
        assert_eq!(date(u64::MAX), format!("{} ms", u64::MAX));
    }
}
