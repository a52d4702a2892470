//! Which login was found good for which image lately, so that a registry is not asked for every task.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, PoisonError};

use muster_exec::image::ImageRecord;
use muster_model::launch::RegistryAuth;
use muster_model::time::Time;

/// An answer holds for an hour.
const HOLDS_US: u64 = 60 * 60 * 1_000_000;
/// So many answers are remembered; then all are forgotten.
const ANSWERS_MAX: usize = 1024;

/// Answers, by a hash under a key of this process's own: no login is kept.
#[derive(Debug, Default)]
pub(crate) struct CheckedLogins {
    hasher: RandomState,
    answers: Mutex<BTreeMap<u64, Time>>,
}

impl CheckedLogins {
    /// What an answer is kept under.
    pub(crate) fn key(&self, image: &ImageRecord, name: &str, auth: Option<&RegistryAuth>) -> u64 {
        let auth = auth.map(|auth| (&auth.username, &auth.password, &auth.registry));
        self.hasher.hash_one((image.digest.as_str(), name, auth))
    }

    /// Whether the registry has said yes lately.
    pub(crate) fn holds(&self, key: u64, now: Time) -> bool {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Time| now.micros_since(*at) < HOLDS_US;
        answers.get(&key).is_some_and(is_recent)
    }

    /// The registry says yes.
    pub(crate) fn add(&self, key: u64, now: Time) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(key, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_holds_for_an_hour() {
        let admitted = CheckedLogins::default();
        let start = Time::from_millis(5);
        assert!(!admitted.holds(7, start));
        admitted.add(7, start);
        let at = |ms: u64| Time::from_millis(5 + ms);
        assert!(admitted.holds(7, at(3_599_999)));
        assert!(!admitted.holds(7, at(3_600_000)));
        assert!(!admitted.holds(8, start));
    }
}
