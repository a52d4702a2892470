use super::*;
use crate::machine::journal::Journal;

fn open(path: &Path) -> Group<Journal> {
    Group::open(path, Journal::default(), Options { log_entries_max: 3 }).unwrap()
}

/// Commits these entries and applies them.
fn commit(group: &mut Group<Journal>, range: std::ops::RangeInclusive<u8>) -> Vec<usize> {
    group.commit(entries(range)).unwrap();
    std::iter::from_fn(|| group.apply_next()).collect()
}

fn entries(range: std::ops::RangeInclusive<u8>) -> Vec<Vec<u8>> {
    range.map(|n| vec![n]).collect()
}

#[test]
fn what_was_committed_is_there_after_every_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group.redb");
    let mut next = 1;
    for round in 0..12 {
        let mut group = open(&path);
        let expect: Vec<_> = (1..next).map(|n| (u64::from(n), vec![n])).collect();
        assert_eq!(group.machine().0, expect, "round {round}");
        assert_eq!(group.term(), round + 1);
        let outputs = commit(&mut group, next..=next + 1);
        assert_eq!(outputs, [usize::from(next), usize::from(next) + 1]);
        next += 2;
        if group.wants_compaction() {
            group.compact().unwrap();
            assert!(!group.wants_compaction());
        }
    }
}

#[test]
fn a_refused_write_leaves_nothing_and_the_next_one_works() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group.redb");
    let mut group = open(&path);
    commit(&mut group, 1..=1);
    // A write whose outcome was reported as failed, though the bytes arrived.
    group.log.append(2, &entries(9..=9)).unwrap();
    drop(std::mem::replace(&mut group.log, Log::new(&path)));
    commit(&mut group, 2..=2);
    drop(group);
    assert_eq!(open(&path).machine().0, [(1, vec![1]), (2, vec![2])]);
}

#[test]
fn a_missing_entry_is_an_error_not_a_shorter_history() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group.redb");
    let mut group = open(&path);
    commit(&mut group, 1..=2);
    group.log.append(4, &entries(4..=4)).unwrap();
    drop(group);
    let error = Group::open(&path, Journal::default(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Gap { index: 3, .. }), "{error}");
}

#[test]
fn an_unreadable_snapshot_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("group.redb");
    let mut group = open(&path);
    commit(&mut group, 1..=1);
    group.log.compact(1, &[0xff, 0xff]).unwrap();
    drop(group);
    let error = Group::open(&path, Journal::default(), Options::default()).unwrap_err();
    assert!(matches!(error, Error::Snapshot { .. }), "{error}");
}
