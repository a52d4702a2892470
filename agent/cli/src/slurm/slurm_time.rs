//! Points in time as Slurm's commands write and read them. All are UTC.

use std::time::{Duration, UNIX_EPOCH};

const DAY_S: u64 = 86_400;
/// What a user can write.
const FORMS: &str = "write 2026-11-20, 2026-11-20T11:21[:27], 11:21[:27] (today), today, now, or now-2days \
                     (seconds, minutes, hours, days, weeks); times are UTC";

/// `2026-11-29T13:08:00`, from milliseconds since the epoch.
pub(super) fn timestamp(ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    let text = at.map(|at| humantime::format_rfc3339_seconds(at).to_string());
    text.unwrap_or_default().trim_end_matches('Z').to_owned()
}

/// The beginning of a day, in milliseconds since the epoch.
pub(super) const fn midnight(now_ms: u64) -> u64 {
    let day_ms = DAY_S * 1_000;
    now_ms - now_ms % day_ms
}

/// Milliseconds since the epoch of what a user wrote.
pub(super) fn read(text: &str, now_ms: u64) -> Result<u64, String> {
    let found = match text.trim().to_ascii_lowercase().as_str() {
        "now" => Some(now_ms),
        "today" | "midnight" => Some(midnight(now_ms)),
        relative if relative.starts_with("now") => from_now(&relative[3..], now_ms),
        day if day.len() >= 10 => dated(day),
        clock => of_clock(clock).map(|ms| midnight(now_ms) + ms),
    };
    found.ok_or_else(|| format!("{text:?} is no time here: {FORMS}"))
}

/// `-2days`, `+1hour`, `-30`, which is seconds.
fn from_now(text: &str, now_ms: u64) -> Option<u64> {
    let (is_before, text) = match text.split_at_checked(1)? {
        ("-", rest) => (true, rest),
        ("+", rest) => (false, rest),
        _ => return None,
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let unit_s = match unit {
        "" | "second" | "seconds" => 1,
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3_600,
        "day" | "days" => DAY_S,
        "week" | "weeks" => 7 * DAY_S,
        _ => return None,
    };
    let span_ms = count.parse::<u64>().ok()?.checked_mul(unit_s * 1_000)?;
    match is_before {
        true => Some(now_ms.saturating_sub(span_ms)),
        false => now_ms.checked_add(span_ms),
    }
}

/// `2026-11-20`, with a time or without.
fn dated(text: &str) -> Option<u64> {
    let (day, clock) = text.split_at_checked(10)?;
    let day = humantime::parse_rfc3339_weak(&format!("{day} 00:00:00")).ok()?;
    let day = day.duration_since(UNIX_EPOCH).ok()?;
    let clock_ms = match clock.strip_prefix('t') {
        Some(clock) => of_clock(clock)?,
        None if clock.is_empty() => 0,
        None => return None,
    };
    Some(u64::try_from(day.as_millis()).ok()? + clock_ms)
}

/// `11:21`, `11:21:27`: milliseconds of the day.
fn of_clock(text: &str) -> Option<u64> {
    let parts = text.split(':').map(|part| {
        let is_plain = matches!(part.len(), 1 | 2) && part.bytes().all(|it| it.is_ascii_digit());
        is_plain.then(|| part.parse::<u64>().ok())?
    });
    let parts: Vec<u64> = parts.collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let is_one = hours < 24 && minutes < 60 && seconds < 60;
    is_one.then_some((hours * 3_600 + minutes * 60 + seconds) * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T11:21:27.
    const NOW_MS: u64 = 1_795_173_687_000;

    #[test]
    fn times_are_read_as_slurm_writes_them() {
        assert_eq!(timestamp(NOW_MS), "2026-11-20T11:21:27");
        for (text, expect) in [
            ("2026-11-20T11:21:27", "2026-11-20T11:21:27"),
            ("2026-11-19t08:05", "2026-11-19T08:05:00"),
            ("2026-11-01", "2026-11-01T00:00:00"),
            ("8:05", "2026-11-20T08:05:00"),
            ("23:59:59", "2026-11-20T23:59:59"),
            ("today", "2026-11-20T00:00:00"),
            ("midnight", "2026-11-20T00:00:00"),
            ("now", "2026-11-20T11:21:27"),
            ("NOW-2days", "2026-11-18T11:21:27"),
            ("now-1week", "2026-11-13T11:21:27"),
            ("now-30", "2026-11-20T11:20:57"),
            ("now+1hour", "2026-11-20T12:21:27"),
            ("now-99999999weeks", "1970-01-01T00:00:00"),
        ] {
            assert_eq!(
                read(text, NOW_MS).map(timestamp),
                Ok(expect.to_owned()),
                "{text}"
            );
        }
        for text in [
            "",
            "x",
            "112026",
            "11/20/26",
            "24:00",
            "1:60",
            "1:2:3:4",
            "now2days",
            "now-2years",
            "now-99999999999999999999",
            "2026-13-01",
            "2026-11-20 11:21",
            "2026-11-20T",
            "2026-11-20T25:00",
            "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}",
        ] {
            let why = read(text, NOW_MS).unwrap_err();
            assert!(why.contains("2026-11-20T11:21[:27]"), "{why}");
        }
    }
}
