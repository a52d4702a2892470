//! Users with their tokens, and the keys that all members share.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::id::{GroupName, UserName};
use muster_model::people::{EMAIL_BYTES_MAX, EXTENSION_BYTES_MAX};
use muster_model::user_token::{TokenKind, UserTokenId, UserTokenView, token_name_problem};
use serde::{Deserialize, Serialize};

use super::ClusterState;
use super::entry::ClusterInit;
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
/// Bytes of the address that a token was asked for from, at most.
pub const TOKEN_ADDRESS_MAX: usize = 64;
/// Bytes of a key of tokens, at most.
pub const TOKEN_KEY_MAX: usize = 256;
/// Keys that signed tokens before, at most.
pub const RETIRED_KEYS_MAX: usize = 8;

/// Keys that every member has, so that each understands what another one made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Seals jobs' secrets.
    pub data: Hidden<[u8; 32]>,
    /// Signs links to logs.
    pub link: Hidden<[u8; 32]>,
    /// Signs users' tokens: Ed25519, PKCS#8 in DER. At most [`TOKEN_KEY_MAX`] bytes.
    pub token: Hidden<Vec<u8>>,
    /// The number of that key, which its tokens name. The first one is 1.
    pub token_number: u32,
    /// Keys that signed tokens before, the oldest first. Nothing can be signed with what is kept of them.
    pub retired: Vec<RetiredTokenKey>,
}

/// What is kept of a key that signed tokens before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetiredTokenKey {
    /// Its number.
    pub number: u32,
    /// Its public half: what it signed is checked with that.
    pub public: Vec<u8>,
}

impl Keys {
    /// Whether tokens that the key of this number signed can be checked.
    pub fn knows(&self, number: u32) -> bool {
        number == self.token_number || self.retired.iter().any(|key| key.number == number)
    }

    fn fits(&self) -> bool {
        let retired = &self.retired;
        self.token.0.len() <= TOKEN_KEY_MAX
            && retired.len() <= RETIRED_KEYS_MAX
            && retired.iter().all(|key| key.public.len() <= TOKEN_KEY_MAX)
    }
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
    /// Names it.
    pub id: UserTokenId,
    /// For a person or a program.
    pub kind: TokenKind,
    /// What its user calls it, may be empty.
    pub name: String,
    /// When it was issued, seconds since the epoch.
    pub issued_s: u64,
    /// When it expires, seconds since the epoch; none: never.
    pub expires_s: Option<u64>,
    /// The address that it was asked for from.
    pub address: String,
    /// The number of the key that signed it.
    pub key: u32,
    /// When it was used last, seconds since the epoch, as far as nodes have told; 0: never. Always 0 in a
    /// [`ClusterMap`](super::ClusterMap).
    pub used_s: u64,
}

/// A user has as many application tokens as may be. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a user has at most {APPLICATION_TOKENS_MAX} application tokens; revoke some")]
pub struct TooManyApplicationTokens;

impl UserToken {
    /// Whether it is a program's, which nobody may lose unasked.
    pub(super) fn is_application(&self) -> bool {
        self.kind == TokenKind::Application
    }

    /// Whether it has not expired at `now_s`, in seconds since the epoch.
    pub fn is_valid(&self, now_s: u64) -> bool {
        self.expires_s.is_none_or(|end| end > now_s)
    }

    /// What is shown of it.
    pub fn view(&self) -> UserTokenView {
        let ms = |seconds: u64| seconds.saturating_mul(1_000);
        UserTokenView {
            id: self.id,
            name: self.name.clone(),
            kind: self.kind,
            issued_ms: ms(self.issued_s),
            expires_ms: self.expires_s.map(ms),
            last_used_ms: (self.used_s > 0).then(|| ms(self.used_s)),
            address: self.address.clone(),
        }
    }

    pub(super) fn fits(&self) -> bool {
        self.text.0.len() <= TOKEN_TEXT_MAX
            && self.address.len() <= TOKEN_ADDRESS_MAX
            && token_name_problem(&self.name).is_none()
    }
}

impl ClusterUser {
    /// Keeps one more token, and forgets those that are over at `now_s`. Where there is no room, the
    /// oldest token of a login goes.
    ///
    /// # Errors
    /// [`TooManyApplicationTokens`].
    pub fn keep(&mut self, token: UserToken, now_s: u64) -> Result<(), TooManyApplicationTokens> {
        let applications = self.valid(now_s).filter(|it| it.is_application()).count();
        if token.is_application() && applications >= APPLICATION_TOKENS_MAX {
            return Err(TooManyApplicationTokens);
        }
        self.tokens.retain(|it| it.is_valid(now_s));
        if self.tokens.len() >= USER_TOKENS_MAX && !self.forget_login() {
            return Err(TooManyApplicationTokens);
        }
        self.tokens.push(token);
        Ok(())
    }

    /// Forgets the oldest token of a login; false if there is none.
    pub(super) fn forget_login(&mut self) -> bool {
        let login = self.tokens.iter().position(|it| !it.is_application());
        if let Some(at) = login {
            self.tokens.remove(at);
        }
        login.is_some()
    }

    pub(super) fn logins(&self) -> usize {
        let logins = self.tokens.iter().filter(|it| !it.is_application());
        logins.count()
    }

    /// Whether they hold this token.
    pub fn holds(&self, text: &str) -> bool {
        self.tokens.iter().any(|token| token.text.0 == text)
    }

    /// Their tokens that are valid at `now_s`, in seconds since the epoch, oldest first.
    pub fn valid(&self, now_s: u64) -> impl Iterator<Item = &UserToken> {
        let is_valid = move |token: &&UserToken| token.is_valid(now_s);
        self.tokens.iter().filter(is_valid)
    }

    /// Their token of this id.
    pub fn token(&self, id: UserTokenId) -> Option<&UserToken> {
        self.tokens.iter().find(|token| token.id == id)
    }

    /// Whether all of it has the length it may have.
    fn fits(&self) -> bool {
        let tokens = &self.tokens;
        self.password_hash.0.len() <= PASSWORD_HASH_MAX
            && self.email.len() <= EMAIL_BYTES_MAX
            && self.extension.len() <= EXTENSION_BYTES_MAX
            && tokens.len() <= USER_TOKENS_MAX
            && tokens.iter().all(UserToken::fits)
    }
}

impl ClusterInit {
    /// Whether the founder's users and keys are within their bounds.
    pub(super) fn check_users(&self) -> Result<(), ClusterRejection> {
        if self.users.len() > USERS_MAX {
            return Err(ClusterRejection::TooManyUsers(self.users.len()));
        }
        if !self.keys.fits() {
            return Err(ClusterRejection::TokenKeys);
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

pub(super) fn count(users: &BTreeMap<UserName, ClusterUser>) -> usize {
    users.values().map(|user| user.tokens.len()).sum()
}
