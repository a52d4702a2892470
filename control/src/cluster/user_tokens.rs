//! Tokens of users: issued, used and revoked, and the key that signs them changed.

use std::collections::BTreeSet;

use muster_model::id::UserName;
use muster_model::people::{Author, PeopleDenial};
use muster_model::user_token::{TokenSelection, TokenUse, token_name_problem};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::audit;
use super::entry::ClusterApplied;
use super::rejected::ClusterRejection;
use super::secret::Hidden;
use super::users::{
    ALL_TOKENS_MAX, ClusterUser, RETIRED_KEYS_MAX, RetiredTokenKey, TOKEN_KEY_MAX, TOKEN_TEXT_MAX,
    UserToken, count,
};

/// Uses of tokens in one entry, at most.
pub const TOKEN_USES_MAX: usize = 1_000;

/// A token of a user is issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserTokenIssue {
    /// Whose.
    pub user: UserName,
    /// The token.
    pub token: UserToken,
    /// Who asked for it, from where.
    pub by: Author,
    /// When, in seconds since the epoch: what expired by then is forgotten.
    pub now_s: u64,
}

/// Tokens of users are revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserTokensRevocation {
    /// Which.
    pub which: TokenSelection,
    /// Who says so, from where.
    pub by: Author,
    /// When, in seconds since the epoch.
    pub now_s: u64,
}

/// Another key signs users' tokens from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKeyChange {
    /// Its number: one more than that of the key until now.
    pub number: u32,
    /// The key: Ed25519, PKCS#8 in DER.
    pub key: Hidden<Vec<u8>>,
    /// The public half of the key until now.
    pub public_before: Vec<u8>,
    /// Who says so, from where.
    pub by: Author,
    /// When, in seconds since the epoch: what expired by then is forgotten.
    pub now_s: u64,
}

impl ClusterState {
    /// Keeps a token as valid, and forgets those of the user that are over. One that is kept
    /// already stays as it is.
    pub(super) fn issue_user_token(
        &mut self,
        index: u64,
        issue: &UserTokenIssue,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let UserTokenIssue {
            user: name,
            token,
            by,
            now_s,
        } = issue;
        self.check_token(token)?;
        let applications = self.users.values().flat_map(|user| user.valid(*now_s));
        let applications = applications.filter(|it| it.is_application()).count();
        let user = self.users.get_mut(name);
        let user = user.ok_or_else(|| ClusterRejection::NoUser(name.clone()))?;
        if user.holds(&token.text.0) {
            return Ok(ClusterApplied::Users);
        }
        if applications >= ALL_TOKENS_MAX {
            return Err(ClusterRejection::TooManyUserTokens);
        }
        let kept = user.keep(token.clone(), *now_s);
        kept.map_err(|_| ClusterRejection::TooManyApplicationTokens(name.clone()))?;
        self.make_room(*now_s);
        self.map_version = index;
        let at_ms = now_s.saturating_mul(1_000);
        self.audit
            .add(index, (by, at_ms), audit::of_issue(name, token));
        Ok(ClusterApplied::Users)
    }

    fn check_token(&self, token: &UserToken) -> Result<(), ClusterRejection> {
        let bytes = token.text.0.len();
        if bytes == 0 || bytes > TOKEN_TEXT_MAX {
            return Err(ClusterRejection::TokenText(bytes));
        }
        if !token.fits() {
            return Err(wrong_name(&token.name));
        }
        match self.keys() {
            Some(keys) if keys.knows(token.key) => Ok(()),
            _ => Err(ClusterRejection::NoTokenKey(token.key)),
        }
    }

    /// Where there are too many tokens, forgets those that are over, then the oldest login of the user with
    /// the most logins.
    fn make_room(&mut self, now_s: u64) {
        if count(&self.users) > ALL_TOKENS_MAX {
            self.forget_expired(now_s);
        }
        if count(&self.users) > ALL_TOKENS_MAX {
            let most = self.users.values_mut().max_by_key(|user| user.logins());
            most.map(ClusterUser::forget_login);
        }
    }

    fn forget_expired(&mut self, now_s: u64) {
        for user in self.users.values_mut() {
            user.tokens.retain(|token| token.is_valid(now_s));
        }
    }

    /// Forgets tokens; one that nobody holds is no error.
    pub(super) fn revoke_user_tokens(
        &mut self,
        index: u64,
        revocation: &UserTokensRevocation,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let UserTokensRevocation { which, by, now_s } = revocation;
        if let Some(name) = which.user()
            && !self.users.contains_key(name)
        {
            return Err(ClusterRejection::NoUser(name.clone()));
        }
        let mut revoked = Vec::new();
        for (name, user) in &mut self.users {
            let gone = user
                .tokens
                .extract_if(.., |it| is_selected(which, name, it));
            revoked.extend(gone);
        }
        if !revoked.is_empty() {
            self.map_version = index;
            let change = audit::of_revocation(which.user(), &revoked);
            let at_ms = now_s.saturating_mul(1_000);
            self.audit.add(index, (by, at_ms), change);
        }
        Ok(ClusterApplied::Users)
    }

    /// How many tokens that would revoke.
    pub fn selected(&self, which: &TokenSelection) -> usize {
        let count = |(name, user): (&UserName, &ClusterUser)| {
            let tokens = user.tokens.iter();
            tokens.filter(|it| is_selected(which, name, it)).count()
        };
        self.users.iter().map(count).sum()
    }

    /// Keeps when tokens were used last. Members are not told: who wants to know asks.
    pub(super) fn note_uses(
        &mut self,
        uses: &[TokenUse],
    ) -> Result<ClusterApplied, ClusterRejection> {
        if uses.len() > TOKEN_USES_MAX {
            return Err(ClusterRejection::TooManyTokenUses(uses.len()));
        }
        for used in uses {
            let user = self.users.get_mut(&used.user);
            let mut tokens = user.into_iter().flat_map(|user| &mut user.tokens);
            if let Some(token) = tokens.find(|token| token.id == used.id) {
                token.used_s = token.used_s.max(used.at_s);
            }
        }
        Ok(ClusterApplied::TokenUses)
    }

    /// Has another key sign tokens. What older keys signed stays good: a key goes once no token is left that
    /// it signed.
    pub(super) fn change_token_key(
        &mut self,
        index: u64,
        change: &TokenKeyChange,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let keys = self.keys.as_ref().ok_or(ClusterRejection::NotFounded)?;
        if change.number != keys.token_number.saturating_add(1) {
            return Err(ClusterRejection::OtherTokenKey(keys.token_number));
        }
        if change.key.0.len() > TOKEN_KEY_MAX || change.public_before.len() > TOKEN_KEY_MAX {
            return Err(ClusterRejection::TokenKeys);
        }
        let needed = self.needed_keys(change.now_s);
        let retired = keys.retired.iter().filter(|it| needed.contains(&it.number));
        let mut retired: Vec<RetiredTokenKey> = retired.cloned().collect();
        if retired.len() >= RETIRED_KEYS_MAX {
            return Err(ClusterRejection::TooManyTokenKeys);
        }
        retired.push(RetiredTokenKey {
            number: keys.token_number,
            public: change.public_before.clone(),
        });
        self.forget_expired(change.now_s);
        if let Some(keys) = &mut self.keys {
            keys.token = change.key.clone();
            keys.token_number = change.number;
            keys.retired = retired;
        }
        self.map_version = index;
        let at_ms = change.now_s.saturating_mul(1_000);
        let record = audit::of_token_key(change.number);
        self.audit.add(index, (&change.by, at_ms), record);
        Ok(ClusterApplied::Users)
    }

    /// Numbers of the keys that signed a token which is valid at `now_s`.
    fn needed_keys(&self, now_s: u64) -> BTreeSet<u32> {
        let tokens = self.users.values().flat_map(|user| user.valid(now_s));
        tokens.map(|token| token.key).collect()
    }
}

fn is_selected(which: &TokenSelection, name: &UserName, token: &UserToken) -> bool {
    match which {
        TokenSelection::Text(user, text) => user == name && token.text == *text,
        TokenSelection::Id(user, id) => user == name && token.id == *id,
        TokenSelection::OfUser(user) => user == name,
        TokenSelection::All => true,
    }
}

fn wrong_name(name: &str) -> ClusterRejection {
    let problem = token_name_problem(name);
    PeopleDenial::Invalid {
        field: "name".to_owned(),
        problem: problem.unwrap_or_else(|| "its address is too long".to_owned()),
    }
    .into()
}
