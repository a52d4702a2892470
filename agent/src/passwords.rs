//! Checks of passwords: slow by design, so a few at a time and no long queue.

use std::sync::Arc;

use argon2::Argon2;
use argon2::PasswordVerifier as _;
use argon2::password_hash::phc::PasswordHash;
use muster_control::cluster::Hidden;
use muster_model::login::Trust;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Passwords checked at a time: each costs 19 MiB for some tens of milliseconds.
const AT_ONCE: usize = 2;
/// Of those, from addresses whose passwords were wrong lately.
const SUSPECTS_AT_ONCE: usize = 1;
/// Checks that may be under way or wait; more are turned away.
const WAITING_MAX: usize = 32;
/// Of those, from addresses whose passwords were wrong lately.
const SUSPECTS_WAITING_MAX: usize = 8;
/// A hash like those of users, of no password: who asks for a user that there is not waits as long
/// as who gives a wrong password.
const NOBODY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bXVzdGVybXVzdGVybXVzdA$\
                      AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// No check was made: too many wait. The same may work a little later.
#[derive(Debug, thiserror::Error)]
#[error("too many logins at a time; try again")]
pub(crate) struct Busy;

/// The places for checks of passwords. Suspects have a part of the places, so that they cannot take them all.
#[derive(Clone, Debug)]
pub(crate) struct PasswordChecks {
    all: Places,
    suspects: Places,
}

/// Places to wait in, and to be checked at.
#[derive(Clone, Debug)]
struct Places {
    doors: Arc<Semaphore>,
    desks: Arc<Semaphore>,
}

impl Places {
    fn new(doors: usize, desks: usize) -> Self {
        Self {
            doors: Arc::new(Semaphore::new(doors)),
            desks: Arc::new(Semaphore::new(desks)),
        }
    }

    fn door(&self) -> Result<OwnedSemaphorePermit, Busy> {
        let door = Arc::clone(&self.doors).try_acquire_owned();
        door.map_err(|_| Busy)
    }

    async fn desk(&self) -> Result<OwnedSemaphorePermit, Busy> {
        let desk = Arc::clone(&self.desks).acquire_owned().await;
        desk.map_err(|_| Busy)
    }
}

impl Default for PasswordChecks {
    fn default() -> Self {
        Self {
            all: Places::new(WAITING_MAX, AT_ONCE),
            suspects: Places::new(SUSPECTS_WAITING_MAX, SUSPECTS_AT_ONCE),
        }
    }
}

impl PasswordChecks {
    /// Whether `password` is what the hash, in PHC form, was made of. Without a hash it is not, and
    /// that takes as long.
    ///
    /// # Errors
    /// [`Busy`].
    pub(crate) async fn is_right(
        &self,
        hash: Option<Hidden<String>>,
        password: Hidden<String>,
        trust: Trust,
    ) -> Result<bool, Busy> {
        // The suspects' own desk comes first: while they wait for it they take none of the others'.
        let _suspect = match trust {
            Trust::Usual => None,
            Trust::Suspect => {
                let door = self.suspects.door()?;
                Some((door, self.suspects.desk().await?))
            }
        };
        let _door = self.all.door()?;
        let desk = self.all.desk().await?;
        let check = tokio::task::spawn_blocking(move || {
            // Held to the end also where nobody waits any more.
            let _desk = desk;
            let is_user = hash.is_some();
            let hash = hash.as_ref().map_or(NOBODY, |hash| hash.0.as_str());
            matches(hash, &password.0) && is_user
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

    fn hash() -> Hidden<String> {
        let hash = Argon2::default().hash_password(b"secret").unwrap();
        Hidden(hash.to_string())
    }

    #[tokio::test]
    async fn the_right_password_is_right_and_a_crowd_is_turned_away() {
        let hash = hash();
        let checks = PasswordChecks::default();
        let check = |text: &str| {
            let password = Hidden(text.to_owned());
            checks.is_right(Some(hash.clone()), password, Trust::Usual)
        };
        assert!(check("secret").await.unwrap());
        assert!(!check("wrong").await.unwrap());
        let nonsense = Some(Hidden("x".to_owned()));
        let nonsense = checks.is_right(nonsense, Hidden("x".to_owned()), Trust::Usual);
        assert!(!nonsense.await.unwrap());
        let crowd = (0..=WAITING_MAX).map(|_| check("secret"));
        let answers = futures::future::join_all(crowd).await;
        let busy = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(busy, 1);
        assert!(check("secret").await.unwrap(), "the doors open again");
    }

    #[tokio::test]
    async fn a_crowd_of_suspects_leaves_room_for_others() {
        let hash = hash();
        let checks = PasswordChecks::default();
        let check = |trust| {
            let (hash, password) = (Some(hash.clone()), Hidden("secret".to_owned()));
            checks.is_right(hash, password, trust)
        };
        let suspects = (0..100).map(|_| check(Trust::Suspect));
        let suspects = futures::future::join_all(suspects);
        let usual = (0..WAITING_MAX - SUSPECTS_AT_ONCE).map(|_| check(Trust::Usual));
        let usual = futures::future::join_all(usual);
        let (suspects, usual) = tokio::join!(suspects, usual);
        let is_checked = |answer: &&Result<bool, Busy>| answer.is_ok();
        assert_eq!(
            suspects.iter().filter(is_checked).count(),
            SUSPECTS_WAITING_MAX
        );
        assert_eq!(usual.iter().filter(is_checked).count(), usual.len());
    }

    #[test]
    fn nobodys_hash_costs_what_a_users_does() {
        let nobody = PasswordHash::new(NOBODY).unwrap();
        let hash = hash();
        let user = PasswordHash::new(&hash.0).unwrap();
        assert_eq!(nobody.algorithm, user.algorithm);
        assert_eq!(nobody.version, user.version);
        assert_eq!(nobody.params, user.params);
        let lengths = |hash: &PasswordHash| {
            let salt = hash.salt.as_ref().map(|salt| salt.as_ref().len());
            (salt, hash.hash.as_ref().map(|hash| hash.as_ref().len()))
        };
        assert_eq!(lengths(&nobody), lengths(&user));
        assert!(!matches(NOBODY, ""));
    }

    #[tokio::test]
    async fn a_user_that_there_is_not_is_told_as_late_as_a_wrong_password() {
        let checks = PasswordChecks::default();
        let hash = hash();
        let time = async |hash: Option<Hidden<String>>| {
            let mut times = Vec::new();
            for _ in 0..7 {
                let began = tokio::time::Instant::now();
                let password = Hidden("wrong".to_owned());
                let right = checks.is_right(hash.clone(), password, Trust::Usual);
                assert!(!right.await.unwrap());
                times.push(began.elapsed());
            }
            times.sort();
            times[times.len() / 2]
        };
        let (user, nobody) = (time(Some(hash.clone())).await, time(None).await);
        assert!(
            nobody * 3 > user && user * 3 > nobody,
            "{user:?} {nobody:?}"
        );
    }
}
