//! Users of a node that is on its own: one admin, whose random password is made at first start.
//!
//! Password hashes and tokens live in one file that only root may read, replaced atomically on
//! every change. A token is valid while its signature is right and it stands in that file, so
//! that it can be listed and revoked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use argon2::Argon2;
use argon2::password_hash::PasswordHasher as _;
use muster_control::cluster::{Hidden, TooManyApplicationTokens, User, UserToken};
use muster_model::id::UserName;
use rand::Rng as _;
use rand::distr::Alphanumeric;
use serde::{Deserialize, Serialize};

use crate::key_file;

/// The one user that every cluster begins with.
pub(crate) const ADMIN: &str = "admin";
/// Letters and digits of a random password: 20 of 62 are 119 bits.
const PASSWORD_LETTERS: usize = 20;

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
    /// Nothing was changed.
    #[error(transparent)]
    TooMany(#[from] TooManyApplicationTokens),
    /// The password could not be hashed.
    #[error("the password cannot be hashed: {0}")]
    Hash(String),
}

/// One user, as the file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    /// Argon2 hash in PHC form.
    password_hash: Hidden<String>,
    email: String,
    admin: bool,
    extension: serde_json::Value,
    /// Oldest first.
    tokens: Vec<KeptToken>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptToken {
    text: Hidden<String>,
    expires: Option<u64>,
}

impl From<Kept> for User {
    fn from(kept: Kept) -> Self {
        let tokens = kept.tokens.into_iter().map(|token| UserToken {
            text: token.text,
            expires_s: token.expires,
        });
        Self {
            password_hash: kept.password_hash,
            admin: kept.admin,
            email: kept.email,
            extension: kept.extension.to_string(),
            tokens: tokens.collect(),
        }
    }
}

impl From<&User> for Kept {
    fn from(user: &User) -> Self {
        let tokens = user.tokens.iter().map(|token| KeptToken {
            text: token.text.clone(),
            expires: token.expires_s,
        });
        Self {
            password_hash: user.password_hash.clone(),
            email: user.email.clone(),
            admin: user.admin,
            extension: serde_json::from_str(&user.extension).unwrap_or_default(),
            tokens: tokens.collect(),
        }
    }
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
            Ok(bytes) => read(&bytes).map_err(|error| Error::Damaged {
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

    /// Looks at one user.
    pub(crate) fn look<T>(&self, name: &str, look: impl FnOnce(&User) -> T) -> Option<T> {
        self.lock().get(name).map(look)
    }

    /// All users.
    pub(crate) fn all(&self) -> BTreeMap<UserName, User> {
        let users = self.lock();
        let named = users
            .iter()
            .filter_map(|(name, user)| Some((name.parse().ok()?, user.clone())));
        named.collect()
    }

    /// Every user's name, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Keeps a token as valid, and forgets those that expired before `now` (seconds).
    ///
    /// # Errors
    /// When the file cannot be written, or the user has too many such tokens; the token is then
    /// not valid.
    pub(crate) fn add_token(
        &self,
        name: &str,
        text: &str,
        expires: Option<u64>,
        now: u64,
    ) -> Result<(), Error> {
        let token = UserToken {
            text: Hidden(text.to_owned()),
            expires_s: expires,
        };
        self.change(name, |user| Ok(user.keep(token, now)?))
    }

    /// Forgets a token.
    ///
    /// # Errors
    /// When the file cannot be written; the token is then still valid.
    pub(crate) fn remove_token(&self, name: &str, text: &str) -> Result<(), Error> {
        self.change(name, |user| {
            user.tokens.retain(|token| token.text.0 != text);
            Ok(())
        })
    }

    fn change(
        &self,
        name: &str,
        edit: impl FnOnce(&mut User) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut users = self.lock();
        let mut next = users.clone();
        if let Some(user) = next.get_mut(name) {
            edit(user)?;
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
        password_hash: Hidden(hash.to_string()),
        email: String::new(),
        admin: true,
        extension: "{}".to_owned(),
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

fn read(bytes: &[u8]) -> Result<BTreeMap<String, User>, serde_json::Error> {
    let kept: BTreeMap<String, Kept> = serde_json::from_slice(bytes)?;
    let users = kept.into_iter().map(|(name, user)| (name, user.into()));
    Ok(users.collect())
}

fn write(path: &Path, users: &BTreeMap<String, User>) -> Result<(), Error> {
    let fail = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let kept: BTreeMap<&String, Kept> = users
        .iter()
        .map(|(name, user)| (name, user.into()))
        .collect();
    let bytes = serde_json::to_vec_pretty(&kept).map_err(|error| fail(error.into()))?;
    key_file::write_private(path, &bytes).map_err(fail)
}

#[cfg(test)]
mod tests {
    use argon2::PasswordVerifier as _;

    use super::*;

    #[test]
    fn the_admin_is_made_once_and_tokens_last() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Users::open(&dir.path().join("u"), &dir.path().join("p")).unwrap();
        let users = open();
        let password = std::fs::read_to_string(dir.path().join("p")).unwrap();
        let hash = |users: &Users| users.look(ADMIN, |user| user.password_hash.clone());
        let is_right = |text: &str| {
            let hash = hash(&users).unwrap();
            let hash = argon2::password_hash::phc::PasswordHash::new(&hash.0).unwrap();
            Argon2::default()
                .verify_password(text.as_bytes(), &hash)
                .is_ok()
        };
        assert!(is_right(password.trim()));
        assert!(!is_right("wrong"));
        users.add_token(ADMIN, "old", Some(10), 5).unwrap();
        users.add_token(ADMIN, "application", None, 20).unwrap();
        let again = open();
        assert_eq!(hash(&again), hash(&users), "the same password");
        let held = |users: &Users| {
            let texts = |user: &User| user.tokens.iter().map(|it| it.text.0.clone()).collect();
            users.look::<Vec<String>>(ADMIN, texts).unwrap()
        };
        assert_eq!(held(&again), ["application"]);
        assert_eq!(again.all(), users.all());
        again.remove_token(ADMIN, "application").unwrap();
        assert!(held(&open()).is_empty());
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
