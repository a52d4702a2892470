//! Checks of passwords: slow by design, so a few at a time and no long queue.

use std::sync::Arc;

use muster_control::cluster::Hidden;
use muster_model::id::UserName;
use muster_model::login::LoginTrust;
use muster_model::people::{NewPassword, PeopleDenial};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::low_priority;
use crate::password_hash::{self, matches};

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
pub(crate) struct ChecksBusy;

/// The places for checks of passwords. Suspects have a part of the places, so that they cannot take them all.
#[derive(Clone, Debug)]
pub(crate) struct PasswordChecks {
    all: CheckSlots,
    suspects: CheckSlots,
}

/// Places to wait in, and to be checked at.
#[derive(Clone, Debug)]
struct CheckSlots {
    queue: Arc<Semaphore>,
    slots: Arc<Semaphore>,
}

impl CheckSlots {
    fn new(queue: usize, slots: usize) -> Self {
        Self {
            queue: Arc::new(Semaphore::new(queue)),
            slots: Arc::new(Semaphore::new(slots)),
        }
    }

    fn enqueue(&self) -> Result<OwnedSemaphorePermit, ChecksBusy> {
        let place = Arc::clone(&self.queue).try_acquire_owned();
        place.map_err(|_| ChecksBusy)
    }

    async fn slot(&self) -> Result<OwnedSemaphorePermit, ChecksBusy> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        slot.map_err(|_| ChecksBusy)
    }
}

impl Default for PasswordChecks {
    fn default() -> Self {
        Self {
            all: CheckSlots::new(WAITING_MAX, AT_ONCE),
            suspects: CheckSlots::new(SUSPECTS_WAITING_MAX, SUSPECTS_AT_ONCE),
        }
    }
}

impl PasswordChecks {
    /// Whether `password` is what the hash, in PHC form, was made of. Without a hash it is not, and
    /// that takes as long.
    ///
    /// # Errors
    /// [`ChecksBusy`].
    pub(crate) async fn is_right(
        &self,
        hash: Option<Hidden<String>>,
        password: Hidden<String>,
        trust: LoginTrust,
    ) -> Result<bool, ChecksBusy> {
        // The suspects' own slot comes first: while they wait for it they take none of the others'.
        let _suspect = match trust {
            LoginTrust::Usual => None,
            LoginTrust::Suspect => {
                let place = self.suspects.enqueue()?;
                Some((place, self.suspects.slot().await?))
            }
        };
        let _place = self.all.enqueue()?;
        let slot = self.all.slot().await?;
        let check = low_priority::run(move || {
            // Held to the end also where nobody waits any more.
            let _slot = slot;
            // A user without a password comes in by another way.
            let hash = hash.filter(|hash| !hash.0.is_empty());
            let is_user = hash.is_some();
            let hash = hash.as_ref().map_or(NOBODY, |hash| hash.0.as_str());
            matches(hash, &password.0) && is_user
        });
        check.await.ok_or(ChecksBusy)
    }

    /// The hash of a new password of a user's; empty for none.
    ///
    /// # Errors
    /// When it is no password, or too many are being checked.
    pub(crate) async fn hash(
        &self,
        user: &UserName,
        password: NewPassword,
    ) -> Result<Hidden<String>, PeopleDenial> {
        let password = match password {
            NewPassword::Plain(password) => password,
            NewPassword::OpenPai(digits) => return password_hash::of_openpai(user, &digits.0),
            NewPassword::None => return Ok(Hidden::default()),
        };
        let busy = |_| PeopleDenial::Busy;
        let _place = self.all.enqueue().map_err(busy)?;
        let slot = self.all.slot().await.map_err(busy)?;
        let hashing = low_priority::run(move || {
            // Held to the end also where nobody waits any more.
            let _slot = slot;
            password_hash::make(&password.0)
        });
        hashing.await.ok_or(PeopleDenial::Busy)?
    }
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::phc::PasswordHash;
    use argon2::{Argon2, PasswordHasher as _};

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
            checks.is_right(Some(hash.clone()), password, LoginTrust::Usual)
        };
        assert!(check("secret").await.unwrap());
        assert!(!check("wrong").await.unwrap());
        let nonsense = Some(Hidden("x".to_owned()));
        let nonsense = checks.is_right(nonsense, Hidden("x".to_owned()), LoginTrust::Usual);
        assert!(!nonsense.await.unwrap());
        let crowd = (0..=WAITING_MAX).map(|_| check("secret"));
        let answers = futures::future::join_all(crowd).await;
        let busy = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(busy, 1);
        assert!(check("secret").await.unwrap(), "there is room again");
    }

    #[tokio::test]
    async fn a_crowd_of_suspects_leaves_room_for_others() {
        let hash = hash();
        let checks = PasswordChecks::default();
        let check = |trust| {
            let (hash, password) = (Some(hash.clone()), Hidden("secret".to_owned()));
            checks.is_right(hash, password, trust)
        };
        let suspects = (0..100).map(|_| check(LoginTrust::Suspect));
        let suspects = futures::future::join_all(suspects);
        let usual = (0..WAITING_MAX - SUSPECTS_AT_ONCE).map(|_| check(LoginTrust::Usual));
        let usual = futures::future::join_all(usual);
        let (suspects, usual) = tokio::join!(suspects, usual);
        let is_checked = |answer: &&Result<bool, ChecksBusy>| answer.is_ok();
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
                let right = checks.is_right(hash.clone(), password, LoginTrust::Usual);
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
