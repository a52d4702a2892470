//! The one user that every cluster begins with: an administrator with a random password.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use muster_control::cluster::ClusterUser;
use muster_model::id::UserName;
use muster_model::people::ADMIN_GROUP;
use rand::Rng as _;
use rand::distr::Alphanumeric;

use crate::{key_file, password_hash};

/// Their name.
pub(crate) const ADMIN: &str = "admin";
/// Letters and digits of a random password: 20 of 62 are 119 bits.
const PASSWORD_LETTERS: usize = 20;

/// Users of a new cluster. The password lies in the file at `password`, for root alone; one that is
/// there already is kept, so that the administrator of the machine knows it.
///
/// # Errors
/// When the file cannot be used, or the password cannot be hashed.
pub(crate) fn users(password: &Path) -> anyhow::Result<BTreeMap<UserName, ClusterUser>> {
    let text = key_file::read_or_make(password, || format!("{}\n", random()).into_bytes())?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    let password_hash = password_hash::make(text.trim())
        .with_context(|| format!("the password in {} cannot be used", password.display()))?;
    let admin = ClusterUser {
        password_hash,
        email: String::new(),
        extension: "{}".to_owned(),
        groups: [ADMIN_GROUP.parse()?].into(),
        revision: 0,
        tokens: Vec::new(),
    };
    Ok([(ADMIN.parse()?, admin)].into())
}

fn random() -> String {
    let letters = rand::rng().sample_iter(Alphanumeric);
    letters.take(PASSWORD_LETTERS).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use argon2::{Argon2, PasswordVerifier as _};

    use super::*;

    #[test]
    fn the_password_in_the_file_is_the_administrators_also_of_a_later_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("admin-password");
        let is_right = |text: &str| {
            let users = users(&file).unwrap();
            let hash = &users[&ADMIN.parse().unwrap()].password_hash.0;
            let hash = argon2::password_hash::phc::PasswordHash::new(hash).unwrap();
            let checked = Argon2::default().verify_password(text.as_bytes(), &hash);
            checked.is_ok()
        };
        assert!(!is_right(""));
        let password = std::fs::read_to_string(&file).unwrap();
        assert_eq!(password.trim().len(), PASSWORD_LETTERS);
        assert!(is_right(password.trim()) && !is_right("wrong"));
    }
}
