//! Which tasks of this node have sessions, and when the last one of each ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_model::id::AttemptUid;

use crate::clock;

/// See the module. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionActivity(Arc<Mutex<BTreeMap<AttemptUid, TaskActivity>>>);

#[derive(Clone, Copy, Debug, Default)]
struct TaskActivity {
    open: usize,
    /// When a session was there last, milliseconds since the epoch.
    last_ms: u64,
}

/// A session that is open, until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenSession {
    activity: SessionActivity,
    uid: AttemptUid,
}

impl SessionActivity {
    /// Counts a session of a task while what is returned lives.
    pub(crate) fn open(&self, uid: &AttemptUid) -> OpenSession {
        self.lock().entry(uid.clone()).or_default().open += 1;
        OpenSession {
            activity: self.clone(),
            uid: uid.clone(),
        }
    }

    /// When a session of the task was there last, milliseconds since the epoch: now, if one is. None if there was none
    /// since the agent began.
    pub(crate) fn last_ms(&self, uid: &AttemptUid) -> Option<u64> {
        let task = self.lock().get(uid).copied()?;
        Some(match task.open {
            0 => task.last_ms,
            _ => clock::now().as_millis(),
        })
    }

    /// Forgets a task that has ended.
    pub(crate) fn forget(&self, uid: &AttemptUid) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptUid, TaskActivity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        if let Some(task) = self.activity.lock().get_mut(&self.uid) {
            task.open = task.open.saturating_sub(1);
            task.last_ms = clock::now().as_millis();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_active_while_a_session_is_open_and_its_end_is_kept() {
        let activity = SessionActivity::default();
        let uid: AttemptUid = "a-0".parse().unwrap();
        assert_eq!(activity.last_ms(&uid), None);
        let (one, two) = (activity.open(&uid), activity.open(&uid));
        drop(one);
        let before = clock::now().as_millis();
        assert!(activity.last_ms(&uid).unwrap() >= before);
        drop(two);
        let ended = activity.last_ms(&uid).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(activity.last_ms(&uid), Some(ended));
        let late = activity.open(&uid);
        activity.forget(&uid);
        drop(late);
        assert_eq!(activity.last_ms(&uid), None);
    }
}
