//! Users of this cluster: today one admin, whose random password is made at first start.
//!
//! Password hashes and tokens live in one file that only root may read, replaced atomically on
//! every change. A token is valid while its signature is right and it stands in that file, so
//! that it can be listed and revoked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use rand::Rng as _;
use rand::distr::Alphanumeric;
use serde::{Deserialize, Serialize};

use crate::key_file;

/// The one user that every cluster begins with.
pub(crate) const ADMIN: &str = "admin";
/// Letters and digits of a random password: 20 of 62 are 119 bits.
const PASSWORD_LETTERS: usize = 20;
/// Valid tokens one user may have; the oldest goes when one more is issued.
const TOKENS_MAX: usize = 1000;

/// Why the users cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file cannot be read or written. Nothing was changed.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is damaged.
    #[error("{path} is damaged: {reason}; restore it from a backup, or remove it for a new admin")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        reason: String,
    },
    /// The password could not be hashed.
    #[error("the password cannot be hashed: {0}")]
    Hash(String),
}

/// One user.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct User {
    /// Argon2 hash in PHC form.
    password_hash: String,
    /// Their address, may be empty.
    pub(crate) email: String,
    /// Whether they may do everything.
    pub(crate) admin: bool,
    /// What clients keep with the user.
    pub(crate) extension: serde_json::Value,
    /// Valid tokens, oldest first.
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    text: String,
    /// Seconds since the epoch; never for an application token.
    expires: Option<u64>,
}

/// The users' file, in memory.
#[derive(Debug)]
pub(crate) struct Users {
    path: PathBuf,
    users: Mutex<BTreeMap<String, User>>,
}

impl Users {
    /// Reads the file; at first start makes the admin and writes the password beside it.
    ///
    /// # Errors
    /// When a file cannot be read or written, or is damaged.
    pub(crate) fn open(path: &Path, admin_password: &Path) -> Result<Self, Error> {
        let users = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::Damaged {
                path: path.to_owned(),
                reason: error.to_string(),
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                first_users(path, admin_password)?
            }
            Err(source) => {
                return Err(Error::File {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        Ok(Self {
            path: path.to_owned(),
            users: Mutex::new(users),
        })
    }

    /// One user.
    pub(crate) fn get(&self, name: &str) -> Option<User> {
        self.lock().get(name).cloned()
    }

    /// Every user's name, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Keeps a token as valid, and forgets those that expired before `now` (seconds).
    ///
    /// # Errors
    /// When the file cannot be written; the token is then not valid.
    pub(crate) fn add_token(
        &self,
        name: &str,
        text: &str,
        expires: Option<u64>,
        now: u64,
    ) -> Result<(), Error> {
        self.change(name, |user| {
            user.tokens
                .retain(|token| token.expires.is_none_or(|end| end > now));
            if user.tokens.len() >= TOKENS_MAX {
                user.tokens.remove(0);
            }
            user.tokens.push(Token {
                text: text.to_owned(),
                expires,
            });
        })
    }

    /// Forgets a token.
    ///
    /// # Errors
    /// When the file cannot be written; the token is then still valid.
    pub(crate) fn remove_token(&self, name: &str, text: &str) -> Result<(), Error> {
        self.change(name, |user| user.tokens.retain(|token| token.text != text))
    }

    /// Whether the holder of that token may do everything; `None` when the user does not hold
    /// it any more.
    pub(crate) fn admin_by_token(&self, name: &str, text: &str) -> Option<bool> {
        let users = self.lock();
        let user = users.get(name)?;
        let held = user.tokens.iter().any(|token| token.text == text);
        held.then_some(user.admin)
    }

    /// A user's tokens that are valid at `now` (seconds), oldest first.
    pub(crate) fn tokens(&self, name: &str, now: u64) -> Vec<String> {
        let users = self.lock();
        let valid = |token: &&Token| token.expires.is_none_or(|end| end > now);
        users.get(name).map_or_else(Vec::new, |user| {
            user.tokens
                .iter()
                .filter(valid)
                .map(|token| token.text.clone())
                .collect()
        })
    }

    fn change(&self, name: &str, edit: impl FnOnce(&mut User)) -> Result<(), Error> {
        let mut users = self.lock();
        let mut next = users.clone();
        if let Some(user) = next.get_mut(name) {
            edit(user);
        }
        write(&self.path, &next)?;
        *users = next;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, User>> {
        // The map is replaced whole, so a panic elsewhere cannot have left half of it.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl User {
    /// Whether this is their password. Takes tens of milliseconds by design.
    pub(crate) fn password_is(&self, password: &str) -> bool {
        PasswordHash::new(&self.password_hash).is_ok_and(|hash| {
            Argon2::default()
                .verify_password(password.as_bytes(), &hash)
                .is_ok()
        })
    }
}

fn first_users(path: &Path, admin_password: &Path) -> Result<BTreeMap<String, User>, Error> {
    let password: String = rand::rng()
        .sample_iter(Alphanumeric)
        .take(PASSWORD_LETTERS)
        .map(char::from)
        .collect();
    let hash = Argon2::default()
        .hash_password(password.as_bytes())
        .map_err(|error| Error::Hash(error.to_string()))?;
    let admin = User {
        password_hash: hash.to_string(),
        email: String::new(),
        admin: true,
        extension: serde_json::json!({}),
        tokens: Vec::new(),
    };
    // The password first: a crash in between leaves no admin whose password nobody knows.
    key_file::write_private(admin_password, format!("{password}\n").as_bytes()).map_err(
        |source| Error::File {
            path: admin_password.to_owned(),
            source,
        },
    )?;
    let users = BTreeMap::from([(ADMIN.to_owned(), admin)]);
    write(path, &users)?;
    Ok(users)
}

fn write(path: &Path, users: &BTreeMap<String, User>) -> Result<(), Error> {
    let fail = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let bytes = serde_json::to_vec_pretty(users).map_err(|error| fail(error.into()))?;
    key_file::write_private(path, &bytes).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_is_made_once_and_tokens_last() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Users::open(&dir.path().join("u"), &dir.path().join("p")).unwrap();
        let users = open();
        let password = std::fs::read_to_string(dir.path().join("p")).unwrap();
        assert!(users.get(ADMIN).unwrap().password_is(password.trim()));
        assert!(!users.get(ADMIN).unwrap().password_is("wrong"));
        users.add_token(ADMIN, "old", Some(10), 5).unwrap();
        users.add_token(ADMIN, "application", None, 20).unwrap();
        let users = open();
        assert!(users.get(ADMIN).unwrap().password_is(password.trim()));
        assert_eq!(users.tokens(ADMIN, 20), ["application"]);
        assert_eq!(users.admin_by_token(ADMIN, "application"), Some(true));
        users.remove_token(ADMIN, "application").unwrap();
        assert_eq!(open().admin_by_token(ADMIN, "application"), None);
    }

    #[test]
    fn a_damaged_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("u"), "{").unwrap();
        let error = Users::open(&dir.path().join("u"), &dir.path().join("p")).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        assert_eq!(std::fs::read(dir.path().join("u")).unwrap(), b"{");
    }
}
