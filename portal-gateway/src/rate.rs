//! Counts requests in fixed windows, like the limiter OpenPAI uses.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::ApiError;

/// Keys counted at a time. When as many are busy, newcomers share one count.
const KEYS_MAX: usize = 10_000;
/// What newcomers are counted under then. No address or user is named so.
const OVERFLOW_KEY: &str = "*";

#[derive(Debug)]
struct Window {
    ends: Instant,
    count: u32,
}

/// Allows so many requests per key and window.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit: NonZeroU32,
    window: Duration,
    windows: Mutex<HashMap<String, Window>>,
}

impl Limiter {
    pub(crate) fn new(limit: NonZeroU32, window: Duration) -> Self {
        Self {
            limit,
            window,
            windows: Mutex::default(),
        }
    }

    /// Counts a request of `key` at `now`.
    pub(crate) fn count(&self, key: &str, now: Instant) -> Result<(), ApiError> {
        // A panic elsewhere cannot leave a count half-written.
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let key = room_for(&mut windows, key, now);
        let ends = now + self.window;
        let window = windows
            .entry(key.to_owned())
            .or_insert(Window { ends, count: 0 });
        if window.ends <= now {
            *window = Window { ends, count: 0 };
        }
        if window.count >= self.limit.get() {
            return Err(ApiError::TooMany {
                limit: self.limit.get(),
                reset_s: (window.ends - now).as_secs().max(1),
            });
        }
        window.count += 1;
        Ok(())
    }
}

fn room_for<'k>(windows: &mut HashMap<String, Window>, key: &'k str, now: Instant) -> &'k str {
    if windows.contains_key(key) || windows.len() < KEYS_MAX {
        return key;
    }
    windows.retain(|_, window| window.ends > now);
    if windows.len() < KEYS_MAX {
        key
    } else {
        OVERFLOW_KEY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(limit: u32) -> Limiter {
        Limiter::new(NonZeroU32::new(limit).unwrap(), Duration::from_secs(60))
    }

    #[test]
    fn a_window_admits_its_limit_and_ends() {
        let limiter = limiter(2);
        let now = Instant::now();
        assert!(limiter.count("a", now).is_ok());
        assert!(limiter.count("a", now).is_ok());
        let later = now + Duration::from_secs(20);
        match limiter.count("a", later) {
            Err(ApiError::TooMany { limit, reset_s }) => assert_eq!((limit, reset_s), (2, 40)),
            other => panic!("{other:?}"),
        }
        assert!(limiter.count("b", later).is_ok(), "another key");
        assert!(limiter.count("a", now + Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn many_keys_take_bounded_memory() {
        let limiter = limiter(1);
        let now = Instant::now();
        for key in 0..KEYS_MAX {
            limiter.count(&key.to_string(), now).unwrap();
        }
        assert!(
            limiter.count("new", now).is_ok(),
            "first in the shared count"
        );
        assert!(
            limiter.count("newer", now).is_err(),
            "second in the shared count"
        );
        assert!(limiter.windows.lock().unwrap().len() <= KEYS_MAX + 1);
        let later = now + Duration::from_secs(61);
        assert!(limiter.count("newest", later).is_ok());
        assert_eq!(limiter.windows.lock().unwrap().len(), 1);
    }
}
