//! Private keys from the 32 bytes that they come of.

use russh::keys::PrivateKey;
use russh::keys::ssh_key::private::Ed25519Keypair;

/// The Ed25519 key of 32 bytes in hexadecimal digits.
///
/// # Errors
/// When the text is another.
pub(crate) fn private_key(seed: &str) -> Result<PrivateKey, String> {
    let seed = bytes(seed).ok_or("a private key is not 32 bytes in hexadecimal digits")?;
    Ok(PrivateKey::from(Ed25519Keypair::from_seed(&seed)))
}

fn bytes(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    if text.len() != 64 || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
        let digits = std::str::from_utf8(digits).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_key() {
        let public = |seed: &str| {
            private_key(seed)
                .unwrap()
                .public_key()
                .to_openssh()
                .unwrap()
        };
        let (one, other) = ("01".repeat(32), "ff".repeat(32));
        assert_eq!(public(&one), public(&one));
        assert_ne!(public(&one), public(&other));
        for wrong in [
            "",
            "01",
            &"0g".repeat(32),
            &"+1".repeat(32),
            &"01".repeat(33),
        ] {
            assert!(private_key(wrong).is_err(), "{wrong}");
        }
    }
}
