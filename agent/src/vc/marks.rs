//! When the copies here were known to be up to date, by the clock since boot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_consensus::GroupId;
use muster_model::time::Time;

/// What a leader said of its group: all that was committed when it was asked lies up to this entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitMark {
    /// When it was asked.
    pub(crate) asked: Time,
    /// The entry.
    pub(crate) index: u64,
}

/// The marks of a group.
#[derive(Clone, Copy, Debug, Default)]
struct GroupMarks {
    /// The newest that the copy here has reached.
    reached: Option<CommitMark>,
    /// The first that it had not when that was last looked at. Later ones are let go until it has, or one
    /// that lags would never reach any.
    awaited: Option<CommitMark>,
}

impl GroupMarks {
    /// `applied`: the last entry that the copy has by now. A copy that was begun anew has less than before.
    fn known_at(&mut self, applied: u64) -> Option<Time> {
        if let Some(mark) = self.awaited.take_if(|mark| mark.index <= applied) {
            self.reached = Some(mark);
        }
        let reached = self.reached.filter(|mark| mark.index <= applied);
        reached.map(|mark| mark.asked)
    }
}

/// The marks of all groups. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitMarks(Arc<Mutex<BTreeMap<GroupId, GroupMarks>>>);

impl CommitMarks {
    /// The leader of a group has set a mark, at which the copy here had taken the entries up to `applied`.
    pub(crate) fn set(&self, group: GroupId, applied: u64, mark: CommitMark) {
        let mut all = self.lock();
        let own = all.entry(group).or_default();
        // Else one that was reached long ago, and that nobody looked at, would be in the way for ever.
        own.known_at(applied);
        own.awaited.get_or_insert(mark);
    }

    /// When the copy of a group, which has taken the entries up to `applied`, was last known to have all
    /// that was committed; none if it never was.
    pub(crate) fn known_at(&self, group: GroupId, applied: u64) -> Option<Time> {
        self.lock().get_mut(&group)?.known_at(applied)
    }

    /// Forgets all other groups.
    pub(crate) fn keep(&self, groups: &BTreeSet<GroupId>) {
        self.lock().retain(|group, _| groups.contains(group));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, GroupMarks>> {
        // Each change leaves it whole, so a panic elsewhere left no half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupId = GroupId(7);

    fn set(marks: &CommitMarks, applied: u64, asked: u64, index: u64) {
        let asked = Time::from_millis(asked);
        marks.set(GROUP, applied, CommitMark { asked, index });
    }

    fn known_at(marks: &CommitMarks, applied: u64) -> Option<u64> {
        marks.known_at(GROUP, applied).map(Time::as_millis)
    }

    #[test]
    fn a_copy_is_as_new_as_the_newest_mark_that_it_has_reached() {
        let marks = CommitMarks::default();
        assert_eq!(known_at(&marks, 9), None);
        set(&marks, 4, 100, 5);
        assert_eq!(known_at(&marks, 4), None);
        assert_eq!(known_at(&marks, 5), Some(100));
        set(&marks, 5, 200, 8);
        assert_eq!(known_at(&marks, 7), Some(100));
        // One that is always behind the newest mark reaches older ones.
        set(&marks, 7, 300, 20);
        assert_eq!(known_at(&marks, 10), Some(200));
        set(&marks, 10, 400, 10);
        assert_eq!(known_at(&marks, 10), Some(400));
    }

    #[test]
    fn a_copy_that_nobody_asked_for_days_is_as_new_as_the_last_mark() {
        let marks = CommitMarks::default();
        for at in 1..1_000 {
            set(&marks, at, at * 10_000, at);
        }
        assert_eq!(known_at(&marks, 999), Some(9_990_000));
    }

    #[test]
    fn a_copy_that_was_begun_anew_is_not_as_new_as_the_one_before() {
        let marks = CommitMarks::default();
        set(&marks, 4, 100, 5);
        assert_eq!(known_at(&marks, 5), Some(100));
        assert_eq!(known_at(&marks, 2), None);
        marks.keep(&BTreeSet::new());
        assert_eq!(known_at(&marks, 9), None);
    }
}
