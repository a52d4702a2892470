//! Times and durations. A time is in UTC, as machine logs are; how long ago it was stands beside it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{Markup, html};

/// The clocks of two nodes differ by less, milliseconds.
const CLOCKS_APART_MS: u64 = 60_000;

/// A time, milliseconds since the epoch, before `now_ms` or behind it. [`past`] and [`future`] are for one that is
/// known to be either.
pub(super) fn at(ms: u64, now_ms: u64) -> Markup {
    match ms.saturating_sub(now_ms) {
        0..CLOCKS_APART_MS => past(ms, now_ms),
        _ => future(ms, now_ms),
    }
}

/// When something happened. By the clock of the node where it did, that may lie ahead.
pub(super) fn past(ms: u64, now_ms: u64) -> Markup {
    written(ms, &ago(ms, now_ms))
}

/// When something is to happen. If that time is over it is about to.
pub(super) fn future(ms: u64, now_ms: u64) -> Markup {
    let text = match ms.saturating_sub(now_ms) {
        0 => "now".to_owned(),
        left => format!("in {}", long(left)),
    };
    written(ms, &text)
}

/// How long ago something happened, as text.
pub(super) fn ago(ms: u64, now_ms: u64) -> String {
    match now_ms.saturating_sub(ms) {
        ..10_000 => "just now".to_owned(),
        ago => format!("{} ago", long(ago)),
    }
}

fn written(ms: u64, text: &str) -> Markup {
    html! { time datetime=(stamp(ms)) title=(stamp(ms)) { (text) } }
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
    fn what_has_happened_is_never_ahead_and_what_is_due_is_now() {
        let text = |markup: Markup| {
            let text = markup.into_string();
            let text = text.split('>').nth(1).map(str::to_owned);
            text.unwrap().replace("</time", "")
        };
        let now = 1_795_167_174_000;
        for (ms, was, will_be, either) in [
            (now - 200_000, "3 min 20 s ago", "now", "3 min 20 s ago"),
            (now - 1, "just now", "now", "just now"),
            (now, "just now", "now", "just now"),
            (now + 800, "just now", "in 0.8 s", "just now"),
            (now + 192_000, "just now", "in 3 min 12 s", "in 3 min 12 s"),
        ] {
            let found = [past(ms, now), future(ms, now), at(ms, now)].map(text);
            assert_eq!(found, [was, will_be, either], "{ms}");
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
