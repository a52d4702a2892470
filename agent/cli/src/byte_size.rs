//! Sizes in bytes as people write and read them.

use std::fmt;
use std::str::FromStr;

/// A size that a user asks for, in whole MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mebibytes(pub(super) u64);

/// Powers of 1024 below a MiB are rounded up to one.
impl FromStr for Mebibytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no size: write 512M, 16G or a number of MiB");
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.to_ascii_lowercase();
        let mebibytes = match unit.trim_end_matches('b').trim_end_matches('i') {
            "k" => Some(number.div_ceil(1024)),
            "" | "m" => Some(number),
            "g" => number.checked_mul(1024),
            "t" => number.checked_mul(1024 * 1024),
            _ => None,
        };
        mebibytes
            .filter(|&size| size > 0)
            .map(Self)
            .ok_or_else(wrong)
    }
}

/// A size in bytes, shown with a binary unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteSize(pub(super) u64);

impl ByteSize {
    /// Of so many MiB.
    pub(super) const fn mebibytes(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        indicatif::BinaryBytes(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_mebibytes() {
        for (text, expect) in [
            ("512", Some(512)),
            ("512M", Some(512)),
            ("512MiB", Some(512)),
            ("16G", Some(16_384)),
            ("16gb", Some(16_384)),
            ("1T", Some(1_048_576)),
            ("1k", Some(1)),
            ("0", None),
            ("", None),
            ("G", None),
            ("1.5G", None),
            ("-1", None),
            ("1X", None),
            ("18446744073709551615T", None),
        ] {
            assert_eq!(text.parse().ok(), expect.map(Mebibytes), "{text}");
        }
    }
}
