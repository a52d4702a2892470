//! ID tokens: whether the provider has signed one, for this cluster, for this login, and lately.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};

/// Longest ID token that is looked at, in bytes. Those with hundreds of groups have some 20,000.
const TOKEN_BYTES_MAX: usize = 256 << 10;
/// Seconds by which the provider's clock may differ from ours.
pub(super) const SKEW_S: u64 = 60;
/// What is taken: signatures by a key of the provider's. `none` and those by a shared secret are not.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Why an ID token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IdTokenError {
    /// The provider may have other keys by now.
    #[error("none of the provider's keys has signed its token")]
    Key,
    /// It will not become any better.
    #[error("the provider's token is not valid: {0}")]
    Invalid(String),
}

/// Whom a token must be from, whom it must be for, and of which login.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    /// None in the device flow, which has no nonce: RFC 8628 gives a client no way to send one. The token
    /// comes from the provider itself, in exchange for a device code that nobody but the members knows.
    pub(crate) nonce: Option<&'a str>,
}

/// What a token says, if it is to be believed. `keys` are the provider's, as it publishes them.
pub(crate) fn verify(
    text: &str,
    keys: &[Value],
    expected: Expected<'_>,
) -> Result<Map<String, Value>, IdTokenError> {
    let claims = signed(text, keys, expected, &["exp", "iss", "aud", "sub"])?;
    check(claims, expected)
}

/// What a token of any kind says, if one of these keys has signed it, for this cluster, and lately. The claims of
/// these names must be there.
pub(super) fn signed(
    text: &str,
    keys: &[Value],
    expected: Expected<'_>,
    required: &[&str],
) -> Result<Map<String, Value>, IdTokenError> {
    if text.len() > TOKEN_BYTES_MAX {
        return Err(invalid("it is too long"));
    }
    // `none` and other unknown algorithms have no header that can be read.
    let header = jsonwebtoken::decode_header(text).map_err(invalid)?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(invalid(format!("{:?} is not taken", header.alg)));
    }
    let mut rules = Validation::new(header.alg);
    rules.leeway = SKEW_S;
    rules.validate_nbf = true;
    rules.set_issuer(&[expected.issuer]);
    rules.set_audience(&[expected.client_id]);
    rules.set_required_spec_claims(required);
    let mut last = IdTokenError::Key;
    // Kinds of keys that are not known here are no keys.
    let keys = keys.iter().filter_map(|key| {
        let key: Jwk = serde_json::from_value(key.clone()).ok()?;
        let is_named = header.kid.is_none() || key.common.key_id == header.kid;
        is_named.then(|| DecodingKey::from_jwk(&key).ok())?
    });
    for key in keys {
        match jsonwebtoken::decode::<Map<String, Value>>(text, &key, &rules) {
            Ok(token) => return Ok(token.claims),
            Err(error) => {
                use jsonwebtoken::errors::ErrorKind as K;
                match error.kind() {
                    K::InvalidSignature | K::InvalidAlgorithm => {}
                    // A key of another kind than the token's algorithm needs, under the name that the token
                    // gives: the provider may have another one under this name by now.
                    K::InvalidKeyFormat | K::InvalidEcdsaKey | K::InvalidRsaKey(_) => {}
                    _ => last = invalid(error),
                }
            }
        }
    }
    Err(last)
}

/// What the library does not look at.
fn check(
    claims: Map<String, Value>,
    expected: Expected<'_>,
) -> Result<Map<String, Value>, IdTokenError> {
    // A nonce that was not sent is one of another login too.
    if claims.get("nonce") != expected.nonce.map(Value::from).as_ref() {
        return Err(invalid("its nonce is that of another login"));
    }
    let is_shared = claims.get("aud").and_then(Value::as_array);
    let is_shared = is_shared.is_some_and(|audience| audience.len() > 1);
    let party = claims.get("azp").and_then(Value::as_str);
    match party {
        Some(party) if party != expected.client_id => {
            Err(invalid("it was issued to another client (azp)"))
        }
        None if is_shared => Err(invalid("it is for several clients, and names none (azp)")),
        _ => Ok(claims),
    }
}

pub(super) fn invalid(why: impl std::fmt::Display) -> IdTokenError {
    IdTokenError::Invalid(why.to_string())
}
