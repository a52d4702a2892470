//! The session of a browser: the token of a login, in a cookie that scripts cannot read.
//!
//! Nothing of a session is kept on a node, so that every node of the cluster knows it.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use crate::call::Call;
use crate::reply::ascii;

const COOKIE_NAME: &str = "muster_session";
/// What a form key is made for, so that the same token signs nothing else.
const PURPOSE: &[u8] = b"muster portal form key";

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

/// What a form of this session carries: only pages that this session was shown know it.
pub(crate) fn form_key(token: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, PURPOSE))
}

/// Whether a form came from a page of this session. The comparison takes the same time for every wrong key.
pub(crate) fn is_form_key(token: &str, text: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let given = URL_SAFE_NO_PAD.decode(text);
    given.is_ok_and(|given| hmac::verify(&key, PURPOSE, &given).is_ok())
}
