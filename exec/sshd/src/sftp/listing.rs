//! A directory's entry as a line for people, like that of `ls -l`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

const SECONDS_OF_DAY: i64 = 86_400;
const KIND_MASK: u32 = 0o170_000;

/// The line of an entry.
pub(super) fn line(name: &str, metadata: &Metadata) -> String {
    format!(
        "{} {:3} {:<8} {:<8} {:8} {} {name}",
        mode(metadata.mode()),
        metadata.nlink(),
        metadata.uid(),
        metadata.gid(),
        metadata.size(),
        date(metadata.mtime())
    )
}

fn mode(mode: u32) -> String {
    let kind = match mode & KIND_MASK {
        0o040_000 => 'd',
        0o120_000 => 'l',
        0o020_000 => 'c',
        0o060_000 => 'b',
        0o010_000 => 'p',
        0o140_000 => 's',
        _ => '-',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Day and time of UTC.
fn date(seconds: i64) -> String {
    let (days, rest) = (
        seconds.div_euclid(SECONDS_OF_DAY),
        seconds.rem_euclid(SECONDS_OF_DAY),
    );
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}",
        rest / 3600,
        rest / 60 % 60
    )
}

/// Year, month and day from days since the epoch, in the Gregorian calendar: years begin in March meanwhile, so that
/// the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_dates_are_as_people_know_them() {
        for (bits, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_755, "drwxr-xr-x"),
            (0o120_777, "lrwxrwxrwx"),
            (0o104_755, "-rwsr-xr-x"),
            (0o041_776, "drwxrwxrwT"),
        ] {
            assert_eq!(mode(bits), text);
        }
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_735_689_660, "2025-01-01 00:01"),
            (-60, "1969-12-31 23:59"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
