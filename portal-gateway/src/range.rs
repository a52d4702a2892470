//! The `Range` header, as far as logs need it: one range of bytes.

use crate::port::LogRange;

/// The range a header asks for. `None` where it is malformed or names several ranges, which
/// RFC 9110 lets a server ignore.
pub(crate) fn parse(header: &str) -> Option<LogRange> {
    let (first, last) = header.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    if first.is_empty() {
        return number(last).map(LogRange::Tail);
    }
    let start = number(first)?;
    let end = match last {
        "" => None,
        last => Some(number(last)?),
    };
    match end {
        Some(end) if end < start => None,
        end => Some(LogRange::Bytes { start, end }),
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let bytes = |start, end| Some(LogRange::Bytes { start, end });
        for (header, want) in [
            ("bytes=0-", bytes(0, None)),
            ("bytes=5-9", bytes(5, Some(9))),
            ("bytes=5-5", bytes(5, Some(5))),
            ("bytes=-16384", Some(LogRange::Tail(16384))),
            ("bytes=9-5", None),
            ("bytes=-", None),
            ("bytes=+1-2", None),
            ("bytes=0-1,4-5", None),
            ("lines=0-1", None),
            ("bytes=99999999999999999999-", None),
        ] {
            assert_eq!(parse(header), want, "{header}");
        }
    }
}
