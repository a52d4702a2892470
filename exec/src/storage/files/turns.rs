//! How many requests for files there are at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::FileError;

/// The requests now.
#[derive(Debug)]
pub(super) struct FileTurns {
    node_max: usize,
    user_max: usize,
    users: Mutex<BTreeMap<String, usize>>,
}

/// One of them. It is over when this is dropped.
#[derive(Debug)]
pub(super) struct FileTurn {
    turns: Arc<FileTurns>,
    user: String,
}

impl FileTurns {
    pub(super) const fn new(node_max: usize, user_max: usize) -> Self {
        Self {
            node_max,
            user_max,
            users: Mutex::new(BTreeMap::new()),
        }
    }

    pub(super) fn take(turns: &Arc<Self>, user: &str) -> Result<FileTurn, FileError> {
        let mut users = turns.users.lock().unwrap_or_else(PoisonError::into_inner);
        let own = users.get(user).copied().unwrap_or(0);
        if own >= turns.user_max {
            return Err(FileError::TooMany(own));
        }
        let all: usize = users.values().sum();
        if all >= turns.node_max {
            return Err(FileError::NodeFull(all));
        }
        users.insert(user.to_owned(), own + 1);
        Ok(FileTurn {
            turns: Arc::clone(turns),
            user: user.to_owned(),
        })
    }
}

impl Drop for FileTurn {
    fn drop(&mut self) {
        let users = &self.turns.users;
        let mut users = users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = users.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                users.remove(&self.user);
            }
        }
    }
}
