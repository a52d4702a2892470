//! What many states have in common: a value that is shared and known by its digest, and what came of
//! giving it an input, which is worked out once.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::Xxh3;

/// A part of a state. Two are the same if all that their values print is.
#[derive(Debug)]
pub(super) struct Part<T> {
    value: Arc<T>,
    digest: u64,
}

impl<T: Debug> Part<T> {
    pub(super) fn new(value: T) -> Self {
        Self {
            digest: digest(&value),
            value: Arc::new(value),
        }
    }
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            digest: self.digest,
        }
    }
}

impl<T> PartialEq for Part<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Part<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.digest);
    }
}

/// A number for all that a value prints: cores keep nothing that they do not print.
pub(super) fn digest(value: &impl Debug) -> u64 {
    struct Digest(Xxh3);
    impl Write for Digest {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut digest = Digest(Xxh3::new());
    if write!(digest, "{value:?}").is_err() {
        panic!("bug in the explorer: a value does not print");
    }
    digest.0.digest()
}

/// A part after an input, and what came out.
type Step<T, O> = (Part<T>, Arc<O>);

/// What comes of giving a part an input. A core is a function: the same of the same.
#[derive(Debug)]
pub(super) struct Memo<T, O> {
    steps: Mutex<HashMap<(u64, u64), Step<T, O>>>,
    parts: Mutex<HashMap<u64, Part<T>>>,
}

impl<T, O> Default for Memo<T, O> {
    fn default() -> Self {
        Self {
            steps: Mutex::default(),
            parts: Mutex::default(),
        }
    }
}

impl<T: Clone + Debug, O> Memo<T, O> {
    /// The part after the input.
    pub(super) fn step<I: Debug>(
        &self,
        part: &Part<T>,
        input: I,
        handle: impl FnOnce(&mut T, I) -> O,
    ) -> Step<T, O> {
        let key = (part.digest, digest(&input));
        let known = lock(&self.steps).get(&key).cloned();
        if let Some(known) = known {
            return known;
        }
        let mut after = T::clone(part);
        let out = Arc::new(handle(&mut after, input));
        let after = self.known(Part::new(after));
        let step = (after, out);
        lock(&self.steps).insert(key, step.clone());
        step
    }

    /// The same value is kept once.
    pub(super) fn known(&self, part: Part<T>) -> Part<T> {
        let mut parts = lock(&self.parts);
        parts.entry(part.digest).or_insert(part).clone()
    }

    /// How many different parts there were.
    pub(super) fn parts(&self) -> usize {
        lock(&self.parts).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
