//! The cluster's user tokens: EdDSA JWTs with OpenPAI's payload.
//!
//! Pure: the keys and the time are given. One key signs; what older ones signed is checked with what is kept of
//! them. Whether a token was revoked is not known here; the
//! agent asks that of its signed list.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use muster_model::id::UserName;
use muster_model::user_token::{TokenKind, UserTokenId};
use serde::{Deserialize, Serialize};

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
    /// No key of this number is kept any more, or it names none.
    #[error("no key is known that the token can be checked with")]
    UnknownKey,
    /// No key can be made.
    #[error("a key cannot be made")]
    Make,
    /// It is longer than any real token.
    #[error("the token has {0} bytes, more than any token")]
    TooLong(usize),
    /// It was valid once.
    #[error("the token expired at {0} seconds since the epoch")]
    Expired(u64),
}

/// A token to be signed. The same gives the same token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsignedToken<'a> {
    /// Whose.
    pub user: &'a UserName,
    /// For a person or a program.
    pub kind: TokenKind,
    /// When it is issued, seconds since the epoch.
    pub at_s: u64,
    /// When it expires, seconds since the epoch; none: never.
    pub expires_s: Option<u64>,
    /// Tells it from others of the same second.
    pub id: UserTokenId,
}

/// The key that signs tokens, and what is kept of those before it.
#[derive(Clone, Copy)]
pub struct SigningKeys<'a> {
    /// Signs: Ed25519, PKCS#8 in DER, version 1 or 2.
    pub pkcs8_der: &'a [u8],
    /// Its number, which tokens name in their header.
    pub number: u32,
    /// Public halves of older keys, by number.
    pub older: &'a [(u32, &'a [u8])],
}

impl fmt::Debug for SigningKeys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKeys({})", self.number)
    }
}

/// A new key that signs tokens: Ed25519, PKCS#8 in DER.
///
/// # Errors
/// [`AuthTokenError::Make`].
pub fn new_key() -> Result<Vec<u8>, AuthTokenError> {
    let source = aws_lc_rs::rand::SystemRandom::new();
    let key = Ed25519KeyPair::generate_pkcs8(&source).map_err(|_| AuthTokenError::Make)?;
    Ok(key.as_ref().to_vec())
}

/// The public half of a key.
///
/// # Errors
/// [`AuthTokenError::Key`].
pub fn public_half(pkcs8_der: &[u8]) -> Result<Vec<u8>, AuthTokenError> {
    Ok(pair(pkcs8_der)?.public_key().as_ref().to_vec())
}

fn pair(pkcs8_der: &[u8]) -> Result<Ed25519KeyPair, AuthTokenError> {
    Ed25519KeyPair::from_pkcs8(pkcs8_der)
        .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8_der))
        .map_err(|error| AuthTokenError::Key(error.to_string()))
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

impl TokenClaims {
    /// Names the token.
    pub fn id(&self) -> Option<UserTokenId> {
        self.jti.parse().ok()
    }
}

/// Issues tokens with one key, and verifies them with that and older ones.
#[derive(Clone)]
pub struct Issuer {
    signing: EncodingKey,
    number: u32,
    verifying: BTreeMap<u32, DecodingKey>,
    rules: Validation,
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer(..)")
    }
}

impl Issuer {
    /// An issuer with these keys.
    ///
    /// # Errors
    /// [`AuthTokenError::Key`].
    pub fn new(keys: &SigningKeys<'_>) -> Result<Self, AuthTokenError> {
        let public = public_half(keys.pkcs8_der)?;
        let older = keys.older.iter();
        let older = older.map(|(number, public)| (*number, DecodingKey::from_ed_der(public)));
        let mut verifying: BTreeMap<u32, DecodingKey> = older.collect();
        verifying.insert(keys.number, DecodingKey::from_ed_der(&public));
        Ok(Self {
            signing: EncodingKey::from_ed_der(keys.pkcs8_der),
            number: keys.number,
            verifying,
            rules: rules(),
        })
    }

    /// Issues a token.
    ///
    /// # Errors
    /// [`AuthTokenError::Sign`].
    pub fn issue(&self, token: &UnsignedToken<'_>) -> Result<String, AuthTokenError> {
        let claims = TokenClaims {
            username: token.user.clone(),
            application: token.kind == TokenKind::Application,
            job_specific: false,
            encoded_framework_name: String::new(),
            iat: token.at_s,
            exp: token.expires_s,
            jti: token.id.to_string(),
        };
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.number.to_string());
        jsonwebtoken::encode(&header, &claims, &self.signing).map_err(AuthTokenError::Sign)
    }

    /// What a token says, if one of the keys signed it and it has not expired at `now_s`.
    ///
    /// # Errors
    /// Why it is not honoured.
    pub fn verify(&self, token: &str, now_s: u64) -> Result<TokenClaims, AuthTokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthTokenError::TooLong(token.len()));
        }
        let key = self.key_of(token)?;
        let claims = jsonwebtoken::decode::<TokenClaims>(token, key, &self.rules)
            .map_err(AuthTokenError::Invalid)?
            .claims;
        match claims.exp {
            Some(exp) if exp <= now_s => Err(AuthTokenError::Expired(exp)),
            _ => Ok(claims),
        }
    }

    /// The key that the header of a token names.
    fn key_of(&self, token: &str) -> Result<&DecodingKey, AuthTokenError> {
        let header = jsonwebtoken::decode_header(token).map_err(AuthTokenError::Invalid)?;
        let number = header.kid.and_then(|kid| kid.parse().ok());
        let key = number.and_then(|number: u32| self.verifying.get(&number));
        key.ok_or(AuthTokenError::UnknownKey)
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
    use muster_model::user_token::LOGIN_LIFE_S;

    const NOW: u64 = 1_795_167_174;
    const END: u64 = NOW + LOGIN_LIFE_S;

    fn key() -> Vec<u8> {
        Ed25519KeyPair::generate_pkcs8v1(&aws_lc_rs::rand::SystemRandom::new())
            .unwrap()
            .as_ref()
            .to_vec()
    }

    fn user() -> UserName {
        "ann".parse().unwrap()
    }

    fn issuer() -> Issuer {
        of(&key(), 1, &[])
    }

    fn of(pkcs8_der: &[u8], number: u32, older: &[(u32, &[u8])]) -> Issuer {
        let keys = SigningKeys {
            pkcs8_der,
            number,
            older,
        };
        Issuer::new(&keys).unwrap()
    }

    fn login(issuer: &Issuer, id: u64) -> String {
        let token = UnsignedToken {
            user: &user(),
            kind: TokenKind::Login,
            at_s: NOW,
            expires_s: Some(END),
            id: UserTokenId(id),
        };
        issuer.issue(&token).unwrap()
    }

    fn part(token: &str, at: usize) -> serde_json::Value {
        let part = token.split('.').nth(at).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn a_token_says_what_openpai_clients_read() {
        let issuer = issuer();
        let token = login(&issuer, 1);
        assert_eq!(
            part(&token, 1),
            serde_json::json!({"username": "ann", "application": false, "jobSpecific": false,
                "encodedFrameworkName": "", "iat": NOW, "exp": NOW + 604_800,
                "jti": "0000000000000001"})
        );
        assert_eq!(part(&token, 0)["kid"], "1");
        assert_eq!(login(&issuer, 1), token);
        assert_ne!(login(&issuer, 2), token, "of the same second");
        let unsigned = UnsignedToken {
            user: &user(),
            kind: TokenKind::Application,
            at_s: NOW,
            expires_s: None,
            id: UserTokenId(3),
        };
        let application = issuer.issue(&unsigned).unwrap();
        let claims = issuer.verify(&application, NOW * 2).unwrap();
        assert!(claims.application && claims.exp.is_none());
        assert_eq!(claims.id(), Some(UserTokenId(3)));
    }

    #[test]
    fn only_an_own_unexpired_untouched_token_passes() {
        let issuer = issuer();
        let token = login(&issuer, 1);
        assert!(issuer.verify(&token, END - 1).is_ok());
        assert!(matches!(
            issuer.verify(&token, END),
            Err(AuthTokenError::Expired(_))
        ));
        let other = of(&key(), 1, &[]);
        assert!(matches!(
            other.verify(&token, NOW),
            Err(AuthTokenError::Invalid(_))
        ));
        let mut parts: Vec<&str> = token.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":"1"}"#);
        parts[0] = &forged;
        assert!(issuer.verify(&parts.join("."), NOW).is_err());
        assert!(issuer.verify("junk", NOW).is_err());
        assert!(issuer.verify(&"x".repeat(5000), NOW).is_err());
    }

    #[test]
    fn what_an_older_key_signed_is_checked_with_its_public_half() {
        let (first, second) = (key(), new_key().unwrap());
        let public = public_half(&first).unwrap();
        let before = of(&first, 1, &[]);
        let after = of(&second, 2, &[(1, &public)]);
        let (old, new) = (login(&before, 1), login(&after, 2));
        assert_eq!(after.verify(&old, NOW).unwrap().id(), Some(UserTokenId(1)));
        assert!(after.verify(&new, NOW).is_ok());
        for (issuer, token) in [(&before, &new), (&of(&second, 2, &[]), &old)] {
            let refused = issuer.verify(token, NOW);
            assert!(matches!(refused, Err(AuthTokenError::UnknownKey)));
        }
        // A token is checked with the key that it names, and with no other one.
        let mut parts: Vec<&str> = old.split('.').collect();
        let forged = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"EdDSA","kid":"2"}"#);
        parts[0] = &forged;
        let refused = after.verify(&parts.join("."), NOW);
        assert!(matches!(refused, Err(AuthTokenError::Invalid(_))));
        let nameless = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"EdDSA"}"#);
        parts[0] = &nameless;
        let refused = after.verify(&parts.join("."), NOW);
        assert!(matches!(refused, Err(AuthTokenError::UnknownKey)));
    }

    #[test]
    fn both_pkcs8_versions_are_keys() {
        for der in [new_key().unwrap(), key()] {
            let issuer = of(&der, 1, &[]);
            let token = login(&issuer, 1);
            assert_eq!(issuer.verify(&token, NOW).unwrap().username, user());
        }
        let none = SigningKeys {
            pkcs8_der: b"no key",
            number: 1,
            older: &[],
        };
        assert!(matches!(Issuer::new(&none), Err(AuthTokenError::Key(_))));
    }
}
