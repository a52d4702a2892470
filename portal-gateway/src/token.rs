//! The cluster's user tokens: EdDSA JWTs with OpenPAI's payload.
//!
//! Pure: the key and the time are given. Whether a token was revoked is not known here; the
//! agent asks that of its signed list.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use muster_model::id::UserName;
use serde::{Deserialize, Serialize};

/// How long a user's token works, in seconds: seven days.
pub const USER_TOKEN_TTL_S: u64 = 7 * 24 * 3600;
/// Longest token that is looked at, in bytes. Ours are below 600.
pub const TOKEN_BYTES_MAX: usize = 4096;

/// Why a token could not be made or is not honoured.
#[derive(Debug, thiserror::Error)]
pub enum AuthTokenError {
    /// The key is no Ed25519 private key in PKCS#8 DER.
    #[error("the signing key is not an Ed25519 key in PKCS#8 DER: {0}")]
    Key(String),
    /// The signature could not be made.
    #[error("the token could not be signed")]
    Sign(#[source] jsonwebtoken::errors::Error),
    /// It is not a token, or not one of this cluster's.
    #[error("the token is not valid")]
    Invalid(#[source] jsonwebtoken::errors::Error),
    /// It is longer than any real token.
    #[error("the token has {0} bytes, more than any token")]
    TooLong(usize),
    /// It was valid once.
    #[error("the token expired at {0} seconds since the epoch")]
    Expired(u64),
}

/// Which kind of token to issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// For a person: expires after [`USER_TOKEN_TTL_S`].
    User,
    /// For a program: does not expire, and may not manage tokens.
    Application,
}

/// What a token says. Names and order are OpenPAI's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenClaims {
    /// Whose.
    pub username: UserName,
    /// Issued to a program.
    pub application: bool,
    /// Always false; kept for clients that read it.
    pub job_specific: bool,
    /// Always empty; kept for clients that read it.
    pub encoded_framework_name: String,
    /// Issued, seconds since the epoch.
    pub iat: u64,
    /// Expires, seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<u64>,
    /// Tells it from others of the same second. OpenPAI has none.
    #[serde(default)]
    pub jti: String,
}

/// Issues and verifies tokens with one key.
#[derive(Clone)]
pub struct Issuer {
    signing: EncodingKey,
    verifying: DecodingKey,
    rules: Validation,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer(..)")
    }
}

impl Issuer {
    /// An issuer with an Ed25519 private key in PKCS#8 DER, version 1 or 2.
    pub fn new(pkcs8_der: &[u8]) -> Result<Self, AuthTokenError> {
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8_der)
            .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8_der))
            .map_err(|e| AuthTokenError::Key(e.to_string()))?;
        Ok(Self {
            signing: EncodingKey::from_ed_der(pkcs8_der),
            verifying: DecodingKey::from_ed_der(pair.public_key().as_ref()),
            rules: rules(),
        })
    }

    /// Issues a token at `now_s` seconds since the epoch. Another `number` gives another token.
    pub fn issue(
        &self,
        user: &UserName,
        kind: TokenKind,
        now_s: u64,
        number: u64,
    ) -> Result<String, AuthTokenError> {
        let claims = TokenClaims {
            username: user.clone(),
            application: kind == TokenKind::Application,
            job_specific: false,
            encoded_framework_name: String::new(),
            iat: now_s,
            exp: match kind {
                TokenKind::User => Some(now_s.saturating_add(USER_TOKEN_TTL_S)),
                TokenKind::Application => None,
            },
            jti: format!("{number:016x}"),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &self.signing)
            .map_err(AuthTokenError::Sign)
    }

    /// What a token says, if this key signed it and it has not expired at `now_s`.
    pub fn verify(&self, token: &str, now_s: u64) -> Result<TokenClaims, AuthTokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthTokenError::TooLong(token.len()));
        }
        let claims = jsonwebtoken::decode::<TokenClaims>(token, &self.verifying, &self.rules)
            .map_err(AuthTokenError::Invalid)?
            .claims;
        match claims.exp {
            Some(exp) if exp <= now_s => Err(AuthTokenError::Expired(exp)),
            _ => Ok(claims),
        }
    }
}

/// Signature only: the library would ask the machine's clock, and we are told the time.
fn rules() -> Validation {
    let mut rules = Validation::new(Algorithm::EdDSA);
    rules.validate_exp = false;
    rules.required_spec_claims.clear();
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    const NOW: u64 = 1_795_167_174;

    fn key() -> Vec<u8> {
        Ed25519KeyPair::generate_pkcs8v1(&aws_lc_rs::rand::SystemRandom::new())
            .unwrap()
            .as_ref()
            .to_vec()
    }

    fn user() -> UserName {
        "ann".parse().unwrap()
    }

    #[test]
    fn a_token_says_what_openpai_clients_read() {
        let issuer = Issuer::new(&key()).unwrap();
        let token = issuer.issue(&user(), TokenKind::User, NOW, 1).unwrap();
        let payload = URL_SAFE_NO_PAD
            .decode(token.split('.').nth(1).unwrap())
            .unwrap();
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&payload).unwrap(),
            serde_json::json!({"username": "ann", "application": false, "jobSpecific": false,
                "encodedFrameworkName": "", "iat": NOW, "exp": NOW + 604_800,
                "jti": "0000000000000001"})
        );
        let other = issuer.issue(&user(), TokenKind::User, NOW, 2).unwrap();
        assert_ne!(other, token, "of the same second");
        let application = issuer
            .issue(&user(), TokenKind::Application, NOW, 1)
            .unwrap();
        let claims = issuer.verify(&application, NOW * 2).unwrap();
        assert!(claims.application && claims.exp.is_none());
    }

    #[test]
    fn only_an_own_unexpired_untouched_token_passes() {
        let issuer = Issuer::new(&key()).unwrap();
        let token = issuer.issue(&user(), TokenKind::User, NOW, 1).unwrap();
        assert!(issuer.verify(&token, NOW + USER_TOKEN_TTL_S - 1).is_ok());
        assert!(matches!(
            issuer.verify(&token, NOW + USER_TOKEN_TTL_S),
            Err(AuthTokenError::Expired(_))
        ));
        let other = Issuer::new(&key()).unwrap();
        assert!(matches!(
            other.verify(&token, NOW),
            Err(AuthTokenError::Invalid(_))
        ));
        let mut parts: Vec<&str> = token.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        parts[0] = &forged;
        assert!(issuer.verify(&parts.join("."), NOW).is_err());
        assert!(issuer.verify("junk", NOW).is_err());
        assert!(issuer.verify(&"x".repeat(5000), NOW).is_err());
    }

    #[test]
    fn both_pkcs8_versions_are_keys() {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let v2 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        for der in [v2.as_ref(), &key()] {
            let issuer = Issuer::new(der).unwrap();
            let token = issuer.issue(&user(), TokenKind::User, NOW, 1).unwrap();
            assert_eq!(issuer.verify(&token, NOW).unwrap().username, user());
        }
        assert!(matches!(
            Issuer::new(b"no key"),
            Err(AuthTokenError::Key(_))
        ));
    }
}
