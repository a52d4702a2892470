//! The session of a browser: the token of a login, in a cookie that scripts cannot read.
//!
//! Nothing of a session is kept on a node, so that every node of the cluster knows it.

use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use crate::call::Call;
use crate::reply::ascii;

pub(super) const COOKIE_NAME: &str = "muster_session";
/// What a form key is made for, so that the same token signs nothing else.
const PURPOSE: &[u8] = b"muster portal form key";
/// Bytes of an HMAC-SHA256.
const KEY_BYTES: usize = 32;

/// The token that a browser keeps, if it has a session.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).into_iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, token) = pairs.find(|(name, _)| *name == COOKIE_NAME)?;
    (!token.is_empty()).then_some(token)
}

/// Has a browser keep a token for `life_s` seconds. A link from elsewhere may open a page, and a form of
/// elsewhere carries no cookie.
pub(crate) fn begin(call: &Call, token: &str, life_s: u64) -> HeaderValue {
    cookie(call, token, life_s)
}

/// Has a browser forget its token.
pub(crate) fn end(call: &Call) -> HeaderValue {
    cookie(call, "", 0)
}

fn cookie(call: &Call, token: &str, life_s: u64) -> HeaderValue {
    let secure = if call.certificate.is_some() {
        "; Secure"
    } else {
        ""
    };
    ascii(format!(
        "{COOKIE_NAME}={token}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Lax{secure}"
    ))
}

/// What a form of this session carries: only pages that this session was shown know it. Each answer is given
/// another text, so that the sizes of compressed pages tell nothing of the key (the attack BREACH). None if
/// the system has no random numbers.
pub(crate) fn form_key(token: &str) -> Option<String> {
    let mut masked = [0; 2 * KEY_BYTES];
    let (mask, rest) = masked.split_at_mut(KEY_BYTES);
    rand::fill(mask).ok()?;
    let tag = hmac::sign(&key(token), PURPOSE);
    for ((byte, tag), mask) in rest.iter_mut().zip(tag.as_ref()).zip(mask.iter()) {
        *byte = tag ^ mask;
    }
    Some(URL_SAFE_NO_PAD.encode(masked))
}

/// Whether a form came from a page of this session. The comparison takes the same time for every wrong key.
pub(crate) fn is_form_key(token: &str, text: &str) -> bool {
    let masked = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let Some((mask, rest)) = masked.split_at_checked(KEY_BYTES) else {
        return false;
    };
    let given: Vec<u8> = rest
        .iter()
        .zip(mask)
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    rest.len() == KEY_BYTES && hmac::verify(&key(token), PURPOSE, &given).is_ok()
}

fn key(token: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_key_is_written_anew_each_time_and_belongs_to_one_session() {
        let [first, second] = [(); 2].map(|()| form_key("token").unwrap());
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let shared = bytes(&first)
            .into_iter()
            .zip(bytes(&second))
            .filter(|(a, b)| a == b);
        // Of 64 random pairs of bytes, more than eight are alike once in 10^9 runs.
        assert!(shared.count() <= 8, "{first} {second}");
        for key in [&first, &second] {
            assert!(is_form_key("token", key));
            assert!(!is_form_key("another", key));
        }
        let mut wrong = bytes(&first);
        wrong[KEY_BYTES] ^= 1;
        let cut = URL_SAFE_NO_PAD.encode(&bytes(&first)[..KEY_BYTES]);
        for text in [
            &URL_SAFE_NO_PAD.encode(wrong),
            &cut,
            "",
            "+",
            &format!("{first}AAAA"),
        ] {
            assert!(!is_form_key("token", text), "{text}");
        }
    }
}
