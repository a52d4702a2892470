//! Signatures of tokens, each checked once: clients send the same token with every request, and
//! a check costs more than most answers. Whether a token was revoked is asked every time, of
//! the users.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_portal_gateway::token::{AuthTokenError, Issuer, TokenClaims};

/// So many tokens are remembered; then all are forgotten and checked again.
const CHECKED_MAX: usize = 1024;

/// What the tokens say whose signature was found right.
#[derive(Debug, Default)]
pub(crate) struct CheckedTokens {
    claims: Mutex<HashMap<String, TokenClaims>>,
}

impl CheckedTokens {
    /// What a token says, if `issuer` signed it and it has not expired at `now_s`, in seconds
    /// since the epoch.
    ///
    /// # Errors
    /// When it is no token of the issuer's, or has expired.
    pub(crate) fn claims(
        &self,
        issuer: &Issuer,
        token: &str,
        now_s: u64,
    ) -> Result<TokenClaims, AuthTokenError> {
        if let Some(known) = self.lock().get(token) {
            return match known.exp {
                Some(exp) if exp <= now_s => Err(AuthTokenError::Expired(exp)),
                _ => Ok(known.clone()),
            };
        }
        let claims = issuer.verify(token, now_s)?;
        let mut checked = self.lock();
        if checked.len() >= CHECKED_MAX {
            checked.clear();
        }
        checked.insert(token.to_owned(), claims.clone());
        Ok(claims)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, TokenClaims>> {
        // Each change is one insertion, so a panic elsewhere left no half of one.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use muster_model::user_token::{TokenKind, UserTokenId};
    use muster_portal_gateway::token::UnsignedToken;

    use super::*;
    use crate::keyring;

    fn issuer() -> Issuer {
        keyring::issuer(&keyring::random().unwrap()).unwrap()
    }

    fn login(issuer: &Issuer) -> String {
        let token = UnsignedToken {
            user: &"ada".parse().unwrap(),
            kind: TokenKind::Login,
            at_s: 100,
            expires_s: Some(500),
            id: UserTokenId(1),
        };
        issuer.issue(&token).unwrap()
    }

    #[test]
    fn a_remembered_token_still_expires_and_a_forged_one_is_not_remembered() {
        let (ours, other, checked) = (issuer(), issuer(), CheckedTokens::default());
        let user: muster_model::id::UserName = "ada".parse().unwrap();
        let token = login(&ours);
        for _ in 0..2 {
            assert_eq!(checked.claims(&ours, &token, 101).unwrap().username, user);
        }
        let end = checked.claims(&ours, &token, 101).unwrap().exp.unwrap();
        let late = checked.claims(&ours, &token, end).unwrap_err();
        assert!(
            matches!(late, AuthTokenError::Expired(at) if at == end),
            "{late}"
        );
        let forged = login(&other);
        for _ in 0..2 {
            assert!(checked.claims(&ours, &forged, 101).is_err());
        }
    }
}
