//! Times and durations. A time is in UTC, as machine logs are; how long ago it was stands beside it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{Markup, html};

/// A time, milliseconds since the epoch, and how long before `now_ms` it was.
pub(super) fn at(ms: u64, now_ms: u64) -> Markup {
    html! {
        time datetime=(stamp(ms)) title=(stamp(ms)) {
            @match now_ms.checked_sub(ms) {
                Some(..10_000) => { "just now" }
                Some(ago) => { (long(ago)) " ago" }
                None => { "in " (long(ms - now_ms)) }
            }
        }
    }
}

/// A time in full: `2026-11-29 17:04:05 UTC`.
pub(super) fn stamp(ms: u64) -> String {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(ms / 1000);
    // A time after the year 9999 cannot be written; no clock that works says one.
    let is_written = time
        .duration_since(UNIX_EPOCH)
        .is_ok_and(|it| it.as_secs() < 253_402_300_800);
    match is_written {
        true => {
            let text = humantime::format_rfc3339_seconds(time).to_string();
            text.replace('T', " ").replace('Z', " UTC")
        }
        false => "unknown".to_owned(),
    }
}

/// A time as machines write it: `2026-11-29T17:04:05Z`; nothing for one that cannot be written.
pub(super) fn rfc3339(ms: u64) -> String {
    match stamp(ms).strip_suffix(" UTC") {
        Some(text) => format!("{}Z", text.replace(' ', "T")),
        None => String::new(),
    }
}

/// A duration in its two largest units: `3 h 12 min`. A short one is told to a tenth of a second.
pub(super) fn long(ms: u64) -> String {
    if ms < 10_000 {
        return format!("{}.{} s", ms / 1000, ms % 1000 / 100);
    }
    let s = ms / 1000;
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    };
    match s {
        0..60 => format!("{s} s"),
        60..3600 => two(s / 60, "min", s % 60, "s"),
        3600..86_400 => two(s / 3600, "h", s % 3600 / 60, "min"),
        _ => two(s / 86_400, "d", s % 86_400 / 3600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (ms, text) in [
            (0, "0.0 s"),
            (9_999, "9.9 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (192_000, "3 min 12 s"),
            (3_600_000, "1 h"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(long(ms), text);
        }
    }

    #[test]
    fn a_time_is_in_utc_and_a_clock_that_is_wrong_does_no_harm() {
        assert_eq!(stamp(1_795_167_174_000), "2026-11-20 09:32:54 UTC");
        assert_eq!(stamp(u64::MAX), "unknown");
        assert_eq!(rfc3339(1_795_167_174_000), "2026-11-20T09:32:54Z");
        assert_eq!(rfc3339(u64::MAX), "");
    }
}
