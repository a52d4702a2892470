//! Logout tokens (OpenID Connect Back-Channel Logout 1.0): the provider says that a person has logged out there.

use serde_json::{Map, Value};

use super::id_token::{Expected, IdTokenError, SKEW_S, invalid, signed};

/// The member of `events` that makes a token a logout token.
const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
/// A token that was issued longer ago is not taken, in seconds. So long its number is remembered.
const AGE_MAX_S: u64 = 300;

/// What a logout token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VouchedLogout {
    /// Who has logged out, as the provider knows them.
    pub(crate) subject: String,
    /// The token's own number.
    pub(crate) number: String,
    /// It is not taken from then on, seconds since the epoch.
    pub(crate) until_s: u64,
}

/// What a token says, if it is to be believed at this time: section 2.6 there.
pub(crate) fn verify(
    text: &str,
    keys: &[Value],
    expected: Expected<'_>,
    now_s: u64,
) -> Result<VouchedLogout, IdTokenError> {
    let claims = signed(text, keys, expected, &["iss", "aud"])?;
    let issued_s = claims.get("iat").and_then(Value::as_u64);
    let issued_s = issued_s.ok_or_else(|| invalid("it does not say when it was issued (iat)"))?;
    if issued_s > now_s + SKEW_S || issued_s + AGE_MAX_S + SKEW_S < now_s {
        return Err(invalid("it was not issued in the last five minutes (iat)"));
    }
    let event = claims.get("events").and_then(|events| events.get(EVENT));
    if !event.is_some_and(Value::is_object) {
        return Err(invalid("it is no logout token (events)"));
    }
    // An ID token has one, so that none is taken for a logout token.
    if claims.contains_key("nonce") {
        return Err(invalid("a logout token has no nonce"));
    }
    let number = named(&claims, "jti").ok_or_else(|| invalid("it has no number (jti)"))?;
    let subject = named(&claims, "sub").ok_or_else(|| match claims.contains_key("sid") {
        true => invalid(
            "it names a session (sid) and no person (sub): this cluster knows persons alone, so have the \
             provider send both",
        ),
        false => invalid("it names neither a person (sub) nor a session (sid)"),
    })?;
    Ok(VouchedLogout {
        subject,
        number,
        until_s: issued_s + AGE_MAX_S + 2 * SKEW_S,
    })
}

fn named(claims: &Map<String, Value>, name: &str) -> Option<String> {
    let text = claims.get(name)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}
