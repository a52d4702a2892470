//! Hashes of passwords: how they are made, taken over from OpenPAI, and checked. A hash is a text in PHC form.

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use md5::{Digest as _, Md5};
use muster_control::cluster::Hidden;
use muster_model::id::UserName;
use muster_model::people::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, PeopleDenial};
use pbkdf2::Pbkdf2;

/// Bytes of a hash of OpenPAI's.
const OPENPAI_BYTES: usize = 64;
/// How OpenPAI hashes: `RS/src/utils/manager/user/user.js` of microsoft/pai.
const OPENPAI: &str = "$pbkdf2-sha512$i=10000,l=64$";

/// The hash of a new password. Takes tens of milliseconds by design.
///
/// # Errors
/// When it is too short or too long.
pub(crate) fn make(password: &str) -> Result<Hidden<String>, PeopleDenial> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        let min = PASSWORD_CHARS_MIN;
        return Err(invalid(format!("a password has at least {min} characters")));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let max = PASSWORD_BYTES_MAX;
        return Err(invalid(format!("a password has at most {max} bytes")));
    }
    let hash = Argon2::default().hash_password(password.as_bytes());
    let hash = hash.map_err(|error| invalid(format!("it cannot be hashed: {error}")))?;
    Ok(Hidden(hash.to_string()))
}

/// A hash that OpenPAI kept of a user's password.
///
/// # Errors
/// When it is none.
pub(crate) fn of_openpai(user: &UserName, digits: &str) -> Result<Hidden<String>, PeopleDenial> {
    let wrong = || PeopleDenial::Invalid {
        field: "passwordHash".to_owned(),
        problem: format!(
            "OpenPAI's hash has {} hexadecimal digits: `password` of the user's secret, decoded once",
            2 * OPENPAI_BYTES
        ),
    };
    let bytes = unhex(digits).filter(|bytes| bytes.len() == OPENPAI_BYTES);
    let hash = STANDARD_NO_PAD.encode(bytes.ok_or_else(wrong)?);
    let salt = STANDARD_NO_PAD.encode(hex(&Md5::digest(user.as_str())));
    Ok(Hidden(format!("{OPENPAI}{salt}${hash}")))
}

/// Whether the hash was made of this password. Takes tens of milliseconds by design.
pub(crate) fn matches(hash: &str, password: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| {
        let password = password.as_bytes();
        match hash.algorithm.as_str() {
            name if name.starts_with("pbkdf2-") => {
                Pbkdf2::default().verify_password(password, &hash).is_ok()
            }
            _ => Argon2::default().verify_password(password, &hash).is_ok(),
        }
    })
}

fn invalid(problem: String) -> PeopleDenial {
    PeopleDenial::Invalid {
        field: "password".to_owned(),
        problem,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    if !digits.is_ascii() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `crypto.pbkdf2Sync` of Node.js, as OpenPAI makes it, of user `ann` and `pai-password`.
    const ANN: &str = "5c7996dcb96a4f6368904fcf6efb4cfcc15eb86e4402c0415749d7029e1f651c6180c56f512cc32cfa79d84dc048fc975de184746beb54d0643cb260f1b9e93c";

    #[test]
    fn a_password_that_openpai_hashed_is_right() {
        let ann: UserName = "ann".parse().unwrap();
        let hash = of_openpai(&ann, ANN).unwrap();
        assert!(matches(&hash.0, "pai-password"));
        assert!(!matches(&hash.0, "pai-passwore"));
        // The name is the salt.
        let bob = of_openpai(&"bob".parse().unwrap(), ANN).unwrap();
        assert!(!matches(&bob.0, "pai-password"));
        for wrong in ["", "xyz", &ANN[2..], &format!("{}zz", &ANN[2..])] {
            let denial = of_openpai(&ann, wrong).unwrap_err();
            assert!(denial.to_string().contains("128 hexadecimal"), "{denial}");
        }
    }

    #[test]
    fn a_hash_is_of_one_password_of_the_length_that_it_may_have() {
        let hash = make("secret").unwrap();
        assert!(matches(&hash.0, "secret") && !matches(&hash.0, "Secret"));
        assert!(!matches("", "") && !matches("$pbkdf2-sha512$x", "secret"));
        assert!(make("short").is_err());
        assert!(make(&"x".repeat(PASSWORD_BYTES_MAX + 1)).is_err());
    }
}
