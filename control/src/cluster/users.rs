//! Users with their tokens, and the keys that all members share.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{GroupName, UserName};
use muster_model::people::{EMAIL_BYTES_MAX, EXTENSION_BYTES_MAX};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::{ClusterApplied, ClusterInit};
use super::rejected::ClusterRejection;
use super::secret::Hidden;

/// Users, at most.
pub const USERS_MAX: usize = 1_024;
/// Tokens of one user, at most; the oldest goes when one more is issued.
pub const USER_TOKENS_MAX: usize = 1_000;
/// Of those, application tokens: logins have room in any case.
pub const APPLICATION_TOKENS_MAX: usize = 900;
/// Tokens of all users, at most: beyond it, whoever has the most loses the oldest. All of them go
/// to every member in one answer.
pub const ALL_TOKENS_MAX: usize = 20_000;
/// Bytes of a token, at most. Ours are below 600.
pub const TOKEN_TEXT_MAX: usize = 800;
/// Bytes of a password's hash, at most.
pub const PASSWORD_HASH_MAX: usize = 512;
/// Bytes of the key that signs tokens, at most.
pub const TOKEN_KEY_MAX: usize = 256;

/// Keys that every member has, so that each understands what another one made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Seals jobs' secrets.
    pub data: Hidden<[u8; 32]>,
    /// Signs links to logs.
    pub link: Hidden<[u8; 32]>,
    /// Signs users' tokens: Ed25519, PKCS#8 in DER. At most [`TOKEN_KEY_MAX`] bytes.
    pub token: Hidden<Vec<u8>>,
}

/// A user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterUser {
    /// Argon2 hash in PHC form; empty in a [`ClusterMap`](super::ClusterMap).
    pub password_hash: Hidden<String>,
    /// Their address, may be empty.
    pub email: String,
    /// What clients keep with the user: a JSON object.
    pub extension: String,
    /// Their groups, which say what they may do.
    pub groups: BTreeSet<GroupName>,
    /// Index of the entry that changed any of that last.
    pub revision: u64,
    /// Valid tokens, oldest first.
    pub tokens: Vec<UserToken>,
}

/// A token of a user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserToken {
    /// The whole of it.
    pub text: Hidden<String>,
    /// Seconds since the epoch; never for an application token.
    pub expires_s: Option<u64>,
}

/// A user has as many application tokens as may be. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a user has at most {APPLICATION_TOKENS_MAX} application tokens; revoke some")]
pub struct TooManyApplicationTokens;

impl UserToken {
    /// Whether it is a program's, which nobody may lose unasked.
    const fn is_application(&self) -> bool {
        self.expires_s.is_none()
    }
}

impl ClusterUser {
    /// Keeps one more token, and forgets those that are over at `now_s`. Where there is no room, the
    /// oldest token of a login goes.
    ///
    /// # Errors
    /// [`TooManyApplicationTokens`].
    pub fn keep(&mut self, token: UserToken, now_s: u64) -> Result<(), TooManyApplicationTokens> {
        let applications = self.tokens.iter().filter(|it| it.is_application()).count();
        if token.is_application() && applications >= APPLICATION_TOKENS_MAX {
            return Err(TooManyApplicationTokens);
        }
        let valid = |it: &UserToken| it.expires_s.is_none_or(|end| end > now_s);
        self.tokens.retain(valid);
        if self.tokens.len() >= USER_TOKENS_MAX && !self.forget_login() {
            return Err(TooManyApplicationTokens);
        }
        self.tokens.push(token);
        Ok(())
    }

    /// Forgets the oldest token of a login; false if there is none.
    fn forget_login(&mut self) -> bool {
        let login = self.tokens.iter().position(|it| !it.is_application());
        if let Some(at) = login {
            self.tokens.remove(at);
        }
        login.is_some()
    }

    fn logins(&self) -> usize {
        let logins = self.tokens.iter().filter(|it| !it.is_application());
        logins.count()
    }

    /// Whether they hold this token.
    pub fn holds(&self, text: &str) -> bool {
        self.tokens.iter().any(|token| token.text.0 == text)
    }

    /// Their tokens that are valid at `now_s`, in seconds since the epoch, oldest first.
    pub fn valid(&self, now_s: u64) -> impl Iterator<Item = &UserToken> {
        let valid = move |token: &&UserToken| token.expires_s.is_none_or(|end| end > now_s);
        self.tokens.iter().filter(valid)
    }

    /// Whether all of it has the length it may have.
    fn fits(&self) -> bool {
        let tokens = &self.tokens;
        self.password_hash.0.len() <= PASSWORD_HASH_MAX
            && self.email.len() <= EMAIL_BYTES_MAX
            && self.extension.len() <= EXTENSION_BYTES_MAX
            && tokens.len() <= USER_TOKENS_MAX
            && tokens.iter().all(|it| it.text.0.len() <= TOKEN_TEXT_MAX)
    }
}

impl ClusterInit {
    /// Whether the founder's users and keys are within their bounds.
    pub(super) fn check_users(&self) -> Result<(), ClusterRejection> {
        if self.users.len() > USERS_MAX {
            return Err(ClusterRejection::TooManyUsers(self.users.len()));
        }
        if self.keys.token.0.len() > TOKEN_KEY_MAX {
            return Err(ClusterRejection::TokenKey(self.keys.token.0.len()));
        }
        let long = self.users.iter().find(|(_, user)| !user.fits());
        if let Some((name, _)) = long {
            return Err(ClusterRejection::UserTooLong(name.clone()));
        }
        if count(&self.users) > ALL_TOKENS_MAX {
            return Err(ClusterRejection::TooManyUserTokens);
        }
        Ok(())
    }
}

impl ClusterState {
    /// Keeps a token as valid, and forgets those of the user that are over. One that is kept
    /// already stays as it is.
    pub(super) fn issue_user_token(
        &mut self,
        index: u64,
        name: &UserName,
        token: &UserToken,
        now_s: u64,
    ) -> Result<ClusterApplied, ClusterRejection> {
        if token.text.0.is_empty() || token.text.0.len() > TOKEN_TEXT_MAX {
            return Err(ClusterRejection::TokenText(token.text.0.len()));
        }
        let user = self.users.get_mut(name);
        let user = user.ok_or_else(|| ClusterRejection::NoUser(name.clone()))?;
        if user.holds(&token.text.0) {
            return Ok(ClusterApplied::Users);
        }
        let kept = user.keep(token.clone(), now_s);
        kept.map_err(|_| ClusterRejection::TooManyApplicationTokens(name.clone()))?;
        if count(&self.users) > ALL_TOKENS_MAX && !self.forget_one_of_most() {
            if let Some(user) = self.users.get_mut(name) {
                user.tokens.pop();
            }
            return Err(ClusterRejection::TooManyUserTokens);
        }
        self.map_version = index;
        Ok(ClusterApplied::Users)
    }

    /// Forgets a login of the user who has the most logins; false if no user has one.
    fn forget_one_of_most(&mut self) -> bool {
        let most = self.users.values_mut().max_by_key(|user| user.logins());
        most.is_some_and(ClusterUser::forget_login)
    }

    /// Forgets a token; one that nobody holds is no error.
    pub(super) fn revoke_user_token(
        &mut self,
        index: u64,
        name: &UserName,
        text: &str,
    ) -> Result<ClusterApplied, ClusterRejection> {
        let user = self.users.get_mut(name);
        let user = user.ok_or_else(|| ClusterRejection::NoUser(name.clone()))?;
        if user.holds(text) {
            user.tokens.retain(|token| token.text.0 != text);
            self.map_version = index;
        }
        Ok(ClusterApplied::Users)
    }

    /// The keys that all members share, once the cluster is founded.
    pub const fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    /// A user.
    pub fn user(&self, name: &UserName) -> Option<&ClusterUser> {
        self.users.get(name)
    }

    /// All users.
    pub fn users(&self) -> impl Iterator<Item = (&UserName, &ClusterUser)> {
        self.users.iter()
    }
}

fn count(users: &BTreeMap<UserName, ClusterUser>) -> usize {
    users.values().map(|user| user.tokens.len()).sum()
}
