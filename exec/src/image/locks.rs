//! One lock per key: a blob or layer that two images share is fetched and unpacked once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

#[derive(Clone, Debug, Default)]
pub(super) struct Locks {
    by_key: Arc<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>>,
}

impl Locks {
    /// Waits for the key's turn. Held until the guard is dropped.
    pub(super) async fn lock(&self, key: &str) -> OwnedMutexGuard<()> {
        self.of(key).lock_owned().await
    }

    fn of(&self, key: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = by_key.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        by_key.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        by_key.insert(key.to_owned(), Arc::downgrade(&lock));
        lock
    }
}
