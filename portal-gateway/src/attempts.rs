//! Wrong passwords, counted by user and address. A client that guesses waits longer each time; a user's
//! right password is taken from any other address meanwhile.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use muster_model::login::LoginTrust;

/// Wrong passwords that cost no wait: people mistype.
const FREE: u32 = 3;
/// The first wait; each further wrong password doubles it.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Wrong passwords are forgotten after so long without another.
const WRONG_LIFE: Duration = Duration::from_secs(15 * 60);
/// That a user's password was right is forgotten after so long.
const RIGHT_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Users remembered of one address; all others of that address share one count.
const USERS_MAX: usize = 1_000;
/// Addresses remembered. Where there are more, the one is forgotten that was seen least recently.
const ADDRESSES_MAX: usize = 4_096;
/// What further users of an address are counted under. No user is named so.
const OTHERS: &str = "*";

/// Counts wrong passwords.
#[derive(Debug, Default)]
pub(crate) struct LoginAttempts(Mutex<HashMap<IpAddr, Address>>);

#[derive(Debug, Default)]
struct Address {
    users: HashMap<String, Tried>,
    wrong: Option<Instant>,
    seen: Option<Instant>,
}

/// What one user's passwords from one address were.
#[derive(Debug)]
struct Tried {
    wrong: u32,
    last: Instant,
    was_right: bool,
}

impl LoginAttempts {
    /// How a login of `user` from `address` is to be treated `now`.
    ///
    /// # Errors
    /// How long to wait before the next try.
    pub(crate) fn admit(
        &self,
        address: IpAddr,
        user: &str,
        now: Instant,
    ) -> Result<LoginTrust, Duration> {
        let mut addresses = self.addresses();
        let Some(known) = addresses.get_mut(&address) else {
            return Ok(LoginTrust::Usual);
        };
        let is_suspect = known.wrong.is_some_and(|last| last + WRONG_LIFE > now);
        let key = known.key(user);
        let tried = known.users.get_mut(key).filter(|one| !one.is_over(now));
        let is_suspect = match tried {
            None => is_suspect,
            Some(tried) => {
                let left = tried.ready().saturating_duration_since(now);
                if !left.is_zero() {
                    return Err(left);
                }
                if tried.wrong > FREE {
                    // Others wait behind this try, or a crowd would come in at once.
                    tried.last = now;
                }
                tried.wrong > 0 || is_suspect && !tried.was_right
            }
        };
        match is_suspect {
            true => Ok(LoginTrust::Suspect),
            false => Ok(LoginTrust::Usual),
        }
    }

    /// The password was wrong, or there is no such user.
    pub(crate) fn wrong(&self, address: IpAddr, user: &str, now: Instant) {
        self.change(address, user, now, |tried| {
            tried.wrong = tried.wrong.saturating_add(1)
        });
        if let Some(known) = self.addresses().get_mut(&address) {
            known.wrong = Some(now);
        }
    }

    /// The password was right.
    pub(crate) fn right(&self, address: IpAddr, user: &str, now: Instant) {
        self.change(address, user, now, |tried| {
            tried.wrong = 0;
            tried.was_right = true;
        });
    }

    fn change(&self, address: IpAddr, user: &str, now: Instant, change: impl FnOnce(&mut Tried)) {
        let mut addresses = self.addresses();
        make_room(&mut addresses, address);
        let known = addresses.entry(address).or_default();
        known.seen = Some(now);
        known.users.retain(|_, tried| !tried.is_over(now));
        let key = known.key(user).to_owned();
        let tried = known.users.entry(key).or_insert(Tried {
            wrong: 0,
            last: now,
            was_right: false,
        });
        tried.last = now;
        change(tried);
    }

    fn addresses(&self) -> MutexGuard<'_, HashMap<IpAddr, Address>> {
        // Counts alone: a panic elsewhere cannot have left half of a change that matters.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_room(addresses: &mut HashMap<IpAddr, Address>, newcomer: IpAddr) {
    if addresses.contains_key(&newcomer) || addresses.len() < ADDRESSES_MAX {
        return;
    }
    let oldest = addresses.iter().min_by_key(|(_, known)| known.seen);
    if let Some(oldest) = oldest.map(|(address, _)| *address) {
        addresses.remove(&oldest);
    }
}

impl Address {
    fn key<'k>(&self, user: &'k str) -> &'k str {
        match self.users.contains_key(user) || self.users.len() < USERS_MAX {
            true => user,
            false => OTHERS,
        }
    }
}

impl Tried {
    /// When the next try may come.
    fn ready(&self) -> Instant {
        self.last + wait(self.wrong)
    }

    fn is_over(&self, now: Instant) -> bool {
        let life = if self.wrong > 0 {
            WRONG_LIFE
        } else {
            RIGHT_LIFE
        };
        self.last + life <= now
    }
}

/// How long to wait after so many wrong passwords.
fn wait(wrong: u32) -> Duration {
    let Some(doublings) = wrong.checked_sub(FREE + 1) else {
        return Duration::ZERO;
    };
    // Beyond this the longest wait is reached long since.
    WAIT_MAX.min(WAIT_FIRST * 2_u32.pow(doublings.min(10)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn the_wait_grows_to_its_bound_and_hits_nobody_else() {
        let attempts = LoginAttempts::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..10 {
            attempts.wrong(HERE, "ann", now);
            let wait = attempts.admit(HERE, "ann", now).err().unwrap_or_default();
            waits.push(wait.as_secs());
            now += wait;
            let next = attempts.admit(HERE, "ann", now);
            assert_eq!(next, Ok(LoginTrust::Suspect), "after {wait:?}");
            let beside = attempts.admit(HERE, "ann", now);
            assert_eq!(beside.is_err(), !wait.is_zero(), "one try a time");
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 15, 15, 15]);
        attempts.wrong(HERE, "ann", now);
        assert!(attempts.admit(HERE, "ann", now).is_err());
        assert_eq!(attempts.admit(HERE, "bob", now), Ok(LoginTrust::Suspect));
        assert_eq!(attempts.admit(THERE, "ann", now), Ok(LoginTrust::Usual));
        let later = now + WRONG_LIFE;
        assert_eq!(attempts.admit(HERE, "ann", later), Ok(LoginTrust::Usual));
    }

    #[test]
    fn a_right_password_ends_the_wait_and_is_remembered() {
        let attempts = LoginAttempts::default();
        let now = Instant::now();
        attempts.right(HERE, "ann", now);
        attempts.wrong(HERE, "eve", now);
        assert_eq!(attempts.admit(HERE, "ann", now), Ok(LoginTrust::Usual));
        assert_eq!(attempts.admit(HERE, "bob", now), Ok(LoginTrust::Suspect));
        for _ in 0..5 {
            attempts.wrong(HERE, "ann", now);
        }
        assert!(attempts.admit(HERE, "ann", now).is_err());
        attempts.right(HERE, "ann", now);
        assert_eq!(attempts.admit(HERE, "ann", now), Ok(LoginTrust::Usual));
    }

    #[test]
    fn many_names_and_addresses_take_bounded_memory() {
        let attempts = LoginAttempts::default();
        let now = Instant::now();
        for name in 0..USERS_MAX + 10 {
            attempts.wrong(HERE, &format!("u{name}"), now);
        }
        assert!(attempts.admit(HERE, "u0", now).is_ok(), "once is free");
        assert!(
            attempts.admit(HERE, "new", now).is_err(),
            "counted with others"
        );
        for number in 0..ADDRESSES_MAX {
            let number = u32::try_from(number).unwrap();
            let address = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
            attempts.wrong(address, "ann", now + Duration::from_secs(1));
        }
        let addresses = attempts.addresses();
        assert_eq!(addresses.len(), ADDRESSES_MAX);
        assert!(!addresses.contains_key(&HERE));
    }
}
