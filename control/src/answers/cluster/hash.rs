//! Hashes of bodies, as text.

/// As two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash as [`hex`] writes it.
pub(super) fn parse(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_and_read() {
        let one = [0x5a; 32];
        assert_eq!(parse(&hex(&one)), Some(one));
        assert_eq!(parse("12"), None);
        assert_eq!(parse(&"ü".repeat(32)), None);
        assert_eq!(parse(&"g".repeat(64)), None);
    }
}
