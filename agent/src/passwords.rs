//! Checks of passwords: slow by design, so a few at a time and no long queue.

use std::sync::Arc;

use argon2::Argon2;
use argon2::PasswordVerifier as _;
use argon2::password_hash::phc::PasswordHash;
use muster_control::cluster::Hidden;
use tokio::sync::Semaphore;

/// Passwords checked at a time: each costs 19 MiB for some tens of milliseconds.
const AT_ONCE: usize = 2;
/// Checks that may be under way or wait; more are turned away.
const WAITING_MAX: usize = 32;

/// No check was made: too many wait. The same may work a little later.
#[derive(Debug, thiserror::Error)]
#[error("too many logins at a time; try again")]
pub(crate) struct Busy;

/// Whoever checks passwords.
#[derive(Clone, Debug)]
pub(crate) struct PasswordChecks {
    doors: Arc<Semaphore>,
    desks: Arc<Semaphore>,
}

impl Default for PasswordChecks {
    fn default() -> Self {
        Self {
            doors: Arc::new(Semaphore::new(WAITING_MAX)),
            desks: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl PasswordChecks {
    /// Whether `password` is what the hash, in PHC form, was made of.
    ///
    /// # Errors
    /// [`Busy`].
    pub(crate) async fn is_right(
        &self,
        hash: Hidden<String>,
        password: Hidden<String>,
    ) -> Result<bool, Busy> {
        let _door = self.doors.try_acquire().map_err(|_| Busy)?;
        let desk = Arc::clone(&self.desks).acquire_owned().await;
        let desk = desk.map_err(|_| Busy)?;
        let check = tokio::task::spawn_blocking(move || {
            // Held to the end also where nobody waits any more.
            let _desk = desk;
            matches(&hash.0, &password.0)
        });
        check.await.map_err(|_| Busy)
    }
}

/// Takes tens of milliseconds by design.
fn matches(hash: &str, password: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| {
        let checked = Argon2::default().verify_password(password.as_bytes(), &hash);
        checked.is_ok()
    })
}

#[cfg(test)]
mod tests {
    use argon2::PasswordHasher as _;

    use super::*;

    #[tokio::test]
    async fn the_right_password_is_right_and_a_crowd_is_turned_away() {
        let hash = Argon2::default().hash_password(b"secret").unwrap();
        let hash = Hidden(hash.to_string());
        let checks = PasswordChecks::default();
        let check = |text: &str| checks.is_right(hash.clone(), Hidden(text.to_owned()));
        assert!(check("secret").await.unwrap());
        assert!(!check("wrong").await.unwrap());
        let nonsense = checks.is_right(Hidden("x".to_owned()), Hidden("x".to_owned()));
        assert!(!nonsense.await.unwrap());
        let crowd = (0..=WAITING_MAX).map(|_| check("secret"));
        let answers = futures::future::join_all(crowd).await;
        let busy = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(busy, 1);
        assert!(check("secret").await.unwrap(), "the doors open again");
    }
}
