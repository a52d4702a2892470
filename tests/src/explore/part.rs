//! What many states have in common: a value that is shared and known by its digest, and what came of
//! giving it an input, which is worked out once.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Debug, Write};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use nohash_hasher::BuildNoHashHasher;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::bug;

/// A part of a state. Two are the same if all that their values print is.
pub(super) struct Part<T>(Arc<Digested<T>>);

struct Digested<T> {
    digest: u64,
    value: T,
}

impl<T: Debug> Part<T> {
    pub(super) fn new(value: T) -> Self {
        let digest = digest(&value);
        Self(Arc::new(Digested { digest, value }))
    }
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Part<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.digest == other.0.digest
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> Hash for Part<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0.digest);
    }
}

impl<T: Debug> Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.value.fmt(f)
    }
}

thread_local! {
    /// What was printed last. The hash is quick with much at once, and values print a word at a time.
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A number for all that a value prints: cores keep nothing that they do not print.
fn digest(value: &impl Debug) -> u64 {
    PRINTED.with_borrow_mut(|text| {
        text.clear();
        write!(text, "{value:?}").unwrap_or_else(bug);
        xxh3_64(text.as_bytes())
    })
}

/// A number for a key of parts and small things.
fn number(key: impl Hash) -> u64 {
    let mut hasher = Xxh3::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// A table by numbers that are digests already.
type Table<T> = HashMap<u64, T, BuildNoHashHasher<u64>>;

/// Each value once.
#[derive(Debug)]
pub(super) struct InternPool<T>(Mutex<Table<Part<T>>>);

impl<T> Default for InternPool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Debug> InternPool<T> {
    /// The one part of this value.
    pub(super) fn part(&self, value: T) -> Part<T> {
        self.known(Part::new(value))
    }
}

impl<T> InternPool<T> {
    /// The one part of the same value.
    pub(super) fn known(&self, part: Part<T>) -> Part<T> {
        lock(&self.0).entry(part.0.digest).or_insert(part).clone()
    }
}

/// So many parts are kept of those that were needed last, and as many of those before: they are large.
const KEPT_MAX: usize = 40_000;

/// The parts that were needed lately.
#[derive(Debug)]
struct Lately<T> {
    last: Table<Part<T>>,
    before: Table<Part<T>>,
}

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self {
            last: Table::default(),
            before: Table::default(),
        }
    }
}

impl<T> Lately<T> {
    fn get(&mut self, digest: u64) -> Option<Part<T>> {
        if let Some(part) = self.last.get(&digest) {
            return Some(part.clone());
        }
        let part = self.before.remove(&digest)?;
        self.put(part.clone());
        Some(part)
    }

    fn put(&mut self, part: Part<T>) {
        if self.last.len() == KEPT_MAX {
            self.before = std::mem::take(&mut self.last);
        }
        self.last.insert(part.0.digest, part);
    }
}

/// What comes of giving a part an input. A core is a function: the same of the same, so that a part that is
/// not kept can be made again of what it came from.
#[derive(Debug)]
pub(super) struct Memo<T, O> {
    /// The digest of the part after it, and what came out.
    steps: Mutex<Table<(u64, Arc<O>)>>,
    lately: Mutex<Lately<T>>,
    /// The digests of all parts.
    parts: Mutex<HashSet<u64, BuildNoHashHasher<u64>>>,
}

impl<T, O> Default for Memo<T, O> {
    fn default() -> Self {
        Self {
            steps: Mutex::default(),
            lately: Mutex::default(),
            parts: Mutex::default(),
        }
    }
}

impl<T: Clone + Debug, O> Memo<T, O> {
    /// The part after the input, and what came out.
    pub(super) fn step<I: Hash>(
        &self,
        part: &Part<T>,
        input: I,
        handle: impl FnOnce(&mut T, I) -> O,
    ) -> (Part<T>, Arc<O>) {
        let key = number((part, &input));
        let known = lock(&self.steps).get(&key).cloned();
        if let Some((digest, out)) = known
            && let Some(after) = lock(&self.lately).get(digest)
        {
            return (after, out);
        }
        let mut after = T::clone(part);
        let out = Arc::new(handle(&mut after, input));
        let after = self.part(after);
        lock(&self.steps).insert(key, (after.0.digest, Arc::clone(&out)));
        (after, out)
    }

    fn part(&self, value: T) -> Part<T> {
        let part = Part::new(value);
        lock(&self.parts).insert(part.0.digest);
        let mut lately = lock(&self.lately);
        match lately.get(part.0.digest) {
            Some(known) => known,
            None => {
                lately.put(part.clone());
                part
            }
        }
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
