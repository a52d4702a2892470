//! Which failures are kept, and which are dropped for newer ones.

use std::collections::BTreeMap;

use muster_model::id::AttemptUid;

/// How a kept failure is called: by when it ended, so that names sort by age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FailureName {
    /// When the task ended, milliseconds since the epoch.
    pub(crate) ended_ms: u64,
    /// The attempt of the task.
    pub(crate) uid: AttemptUid,
}

/// What ends the name of a record's file.
const SUFFIX: &str = ".gz";

impl FailureName {
    /// The name of a failure that is kept at `now_ms`. A clock that was wrong when the task ended makes a failure
    /// neither old nor eternal.
    pub(crate) fn new(ended_ms: u64, uid: AttemptUid, now_ms: u64) -> Self {
        let ended_ms = match ended_ms {
            0 => now_ms,
            ended_ms => ended_ms.min(now_ms),
        };
        Self { ended_ms, uid }
    }

    /// The name of its file.
    pub(crate) fn file(&self) -> String {
        format!("{:014}-{}{SUFFIX}", self.ended_ms, self.uid)
    }

    /// The name by its file's.
    pub(crate) fn of_file(file: &str) -> Option<Self> {
        let (ended_ms, uid) = file.strip_suffix(SUFFIX)?.split_once('-')?;
        Some(Self {
            ended_ms: ended_ms.parse().ok()?,
            uid: uid.parse().ok()?,
        })
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailureLimits {
    /// Most failures.
    pub(crate) count_max: usize,
    /// Most bytes of files.
    pub(crate) bytes_max: u64,
    /// How long one is kept, milliseconds.
    pub(crate) age_ms_max: u64,
}

/// The limits of a node.
pub(crate) const LIMITS: FailureLimits = FailureLimits {
    count_max: 4096,
    bytes_max: 256 << 20,
    age_ms_max: 30 * 86_400_000,
};

/// The failures that there are.
#[derive(Debug, Default)]
pub(crate) struct KeptFailures {
    bytes: BTreeMap<FailureName, u64>,
    bytes_total: u64,
}

impl KeptFailures {
    /// A file was written. The same failure may be written again.
    pub(crate) fn add(&mut self, name: FailureName, bytes: u64) {
        self.bytes_total += bytes;
        if let Some(replaced) = self.bytes.insert(name, bytes) {
            self.bytes_total -= replaced;
        }
    }

    /// Takes out what is too much at `now_ms`, the oldest first. Their files are to be removed.
    pub(crate) fn drop_surplus(&mut self, limits: FailureLimits, now_ms: u64) -> Vec<FailureName> {
        let mut dropped = Vec::new();
        while let Some(oldest) = self.bytes.first_entry() {
            let age_ms = now_ms.saturating_sub(oldest.key().ended_ms);
            if age_ms <= limits.age_ms_max
                && self.bytes_total <= limits.bytes_max
                && self.bytes.len() <= limits.count_max
            {
                break;
            }
            let Some((name, bytes)) = self.bytes.pop_first() else {
                break;
            };
            self.bytes_total -= bytes;
            dropped.push(name);
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: FailureLimits = FailureLimits {
        count_max: 3,
        bytes_max: 100,
        age_ms_max: 1_000,
    };

    fn name(ended_ms: u64) -> FailureName {
        FailureName {
            ended_ms,
            uid: AttemptUid::from_bytes([7; 16]),
        }
    }

    /// What is dropped at `now_ms` of failures that ended then, with so many bytes.
    fn dropped(all: &[(u64, u64)], now_ms: u64) -> Vec<u64> {
        let mut kept = KeptFailures::default();
        for (ended_ms, bytes) in all {
            kept.add(name(*ended_ms), *bytes);
        }
        let dropped = kept.drop_surplus(SMALL, now_ms);
        assert_eq!(
            kept.drop_surplus(SMALL, now_ms),
            [],
            "nothing is left to do"
        );
        dropped.into_iter().map(|name| name.ended_ms).collect()
    }

    #[test]
    fn the_oldest_are_dropped_first() {
        for (all, now_ms, expect) in [
            (vec![], 9, vec![]),
            (vec![(1, 1), (2, 1), (3, 1)], 9, vec![]),
            (vec![(4, 1), (2, 1), (3, 1), (1, 1)], 9, vec![1]),
            (vec![(1, 60), (2, 50), (3, 50)], 9, vec![1]),
            (vec![(1, 50), (2, 101)], 9, vec![1, 2]),
            (vec![(1, 1), (2, 1)], 1_002, vec![1]),
            (vec![(1, 1), (2, 1)], 2_000, vec![1, 2]),
        ] {
            assert_eq!(dropped(&all, now_ms), expect, "{all:?} at {now_ms}");
        }
    }

    #[test]
    fn a_failure_that_is_written_again_counts_once() {
        let mut kept = KeptFailures::default();
        for _ in 0..5 {
            kept.add(name(1), 60);
        }
        assert_eq!(kept.drop_surplus(SMALL, 9), []);
        kept.add(name(1), 101);
        assert_eq!(kept.drop_surplus(SMALL, 9), [name(1)]);
    }

    #[test]
    fn names_are_those_of_files_and_sort_by_age() {
        let (old, new) = (name(999), name(1_795_167_174_000));
        assert!(old < new && old.file() < new.file());
        for name in [old, new] {
            assert_eq!(FailureName::of_file(&name.file()), Some(name));
        }
        for file in ["", "x.gz", "00000000000001-.gz", "1-x.new"] {
            assert_eq!(FailureName::of_file(file), None, "{file}");
        }
        let uid = AttemptUid::from_bytes([7; 16]);
        for (ended_ms, expect) in [(0, 50), (40, 40), (60, 50)] {
            assert_eq!(FailureName::new(ended_ms, uid.clone(), 50).ended_ms, expect);
        }
    }
}
