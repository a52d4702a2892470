use std::sync::Arc;

use super::*;
use crate::key::{ClusterId, NodeKey, Sign, Signature};
use crate::record::{Record, RecordVersion};

#[derive(Debug)]
struct Unsigned;

impl Sign for Unsigned {
    fn key(&self) -> NodeKey {
        NodeKey([0; 32])
    }
    fn sign(&self, _: &[u8]) -> Signature {
        Signature([0; 64])
    }
}

fn store(versions: impl IntoIterator<Item = (u32, u64)>) -> NewestRecords {
    let mut store = NewestRecords::default();
    for (member, number) in versions {
        let version = RecordVersion {
            incarnation: 1,
            number,
        };
        let key = RecordKey::Node(MemberId(member));
        let record = Record::sign(ClusterId::default(), key, version, &member, &Unsigned);
        store.put(Arc::new(record.unwrap()));
    }
    store
}

fn digest(store: &NewestRecords) -> BucketDigest {
    BucketDigest {
        buckets: store.buckets().to_vec(),
    }
}

fn node(member: u32) -> RecordKey {
    RecordKey::Node(MemberId(member))
}

#[test]
fn the_difference_is_found_both_ways_and_nothing_else() {
    let common = (0..500).map(|member| (member, 1));
    let mine = store(common.clone().chain([(3, 2), (600, 1)]));
    let theirs = store(common.chain([(4, 2), (700, 1)]));
    let summary = summary(&theirs, &digest(&mine)).unwrap();
    assert_eq!(summary.buckets.len(), 4);
    let found = compare(&mine, &summary);
    assert_eq!(found.give, [node(3), node(600)]);
    assert_eq!(found.want, [node(4), node(700)]);
}

#[test]
fn a_version_used_twice_is_given_so_that_one_of_the_two_is_kept() {
    let mine = store([(1, 1), (2, 1)]);
    let mut theirs = store([(1, 1)]);
    let version = RecordVersion {
        incarnation: 1,
        number: 1,
    };
    let other = Record::sign(ClusterId::default(), node(2), version, &77_u32, &Unsigned);
    theirs.put(Arc::new(other.unwrap()));
    let summary = summary(&theirs, &digest(&mine)).unwrap();
    let found = compare(&mine, &summary);
    assert_eq!((found.give, found.want), (vec![node(2)], vec![]));
}

#[test]
fn equal_stores_have_no_difference_however_they_came_about() {
    let one = store([(1, 1), (2, 7), (2, 8), (3, 1)]);
    let other = store([(3, 1), (2, 8), (1, 1)]);
    assert_eq!(one.root(), other.root());
    assert_eq!(summary(&one, &digest(&other)), None);
}

#[test]
fn a_long_summary_keeps_whole_buckets() {
    let full = store((0..30_000).map(|member| (member, 1)));
    let summary = summary(&full, &digest(&NewestRecords::default())).unwrap();
    assert!(summary.versions.len() <= SUMMARY_MAX);
    assert_eq!(summary.versions.capacity(), summary.versions.len());
    assert!(!summary.buckets.is_empty());
    let found = compare(&full, &summary);
    assert_eq!(
        (found.give.len(), found.want.len()),
        (summary.versions.len(), 0)
    );
}

/// What happens with one link: a digest told, or the time when looks are taken.
#[derive(Clone, Copy)]
enum Do {
    Compare(u64, u64),
    Back(u64, u64, u64),
    Looks(u64, bool),
}

fn check_looks(what: &str, steps: &[(u64, Do)]) {
    let mut repair = Repair::default();
    let peer = MemberId(1);
    for (ms, step) in steps {
        let now = Time::from_millis(10_000 + ms);
        match *step {
            Do::Compare(mine, theirs) => repair.compare(now, peer, (mine, theirs), 0),
            Do::Back(mine, theirs, pause) => repair.back(now, peer, (mine, theirs), pause),
            Do::Looks(mine, expect) => {
                let looks = repair.looks(now, mine);
                assert_eq!(!looks.is_empty(), expect, "{what} at {ms}");
                looks.iter().for_each(|member| repair.looked(now, *member));
            }
        }
    }
}

#[test]
fn only_a_difference_that_stays_is_looked_into() {
    use Do::{Back, Compare, Looks};
    let met = (0, Compare(0, 0));
    check_looks(
        "a first meeting",
        &[(0, Compare(1, 2)), (0, Looks(1, true))],
    );
    check_looks(
        "stays",
        &[
            met,
            (5, Compare(1, 2)),
            (104, Looks(1, false)),
            (105, Looks(1, true)),
        ],
    );
    check_looks(
        "push came",
        &[
            met,
            (5, Compare(1, 2)),
            (105, Looks(2, false)),
            (900, Looks(2, false)),
        ],
    );
    check_looks(
        "is gone",
        &[
            met,
            (5, Compare(1, 2)),
            (50, Compare(1, 1)),
            (105, Looks(1, false)),
        ],
    );
    check_looks(
        "looked just now",
        &[
            (0, Compare(1, 2)),
            (0, Looks(1, true)),
            (400, Compare(1, 2)),
            (510, Looks(1, false)),
            (510, Compare(1, 2)),
            (610, Looks(1, true)),
        ],
    );
    let changing = |ms: u64| [(ms, Compare(ms, 9)), (ms + 110, Looks(ms + 1, false))];
    let steps = [5, 1_000, 2_000, 2_990].map(changing).concat();
    let last = [(3_105, Compare(7, 9)), (3_105, Looks(8, true))];
    check_looks("keeps changing", &[&[met], &*steps, &last].concat());
    check_looks(
        "is back and equal",
        &[
            met,
            (5, Compare(1, 2)),
            (50, Back(3, 3, 0)),
            (200, Looks(1, false)),
        ],
    );
    check_looks(
        "is back",
        &[
            met,
            (5, Back(1, 2, 250)),
            (200, Looks(3, false)),
            (255, Looks(3, true)),
        ],
    );
}

#[test]
fn who_waited_for_a_look_comes_first() {
    let mut repair = Repair::default();
    let at = |ms: u64| Time::from_millis(10_000 + ms);
    for member in [1, 2] {
        repair.compare(at(0), MemberId(member), (1, 2), 0);
    }
    assert_eq!(repair.looks(at(10), 1), [MemberId(1), MemberId(2)]);
    repair.looked(at(10), MemberId(1));
    repair.postpone(MemberId(2), at(600));
    repair.compare(at(510), MemberId(1), (1, 2), 0);
    assert_eq!(repair.looks(at(610), 1), [MemberId(2), MemberId(1)]);
}

#[test]
fn a_look_that_has_to_wait_is_taken_later() {
    let mut repair = Repair::default();
    let at = |ms: u64| Time::from_millis(10_000 + ms);
    repair.compare(at(0), MemberId(1), (1, 2), 0);
    assert_eq!(repair.deadline(), Some(at(0)));
    assert_eq!(repair.looks(at(0), 1), [MemberId(1)]);
    repair.postpone(MemberId(1), at(200));
    assert_eq!(repair.deadline(), Some(at(200)));
    assert_eq!(repair.looks(at(199), 1), []);
    assert_eq!(repair.looks(at(200), 5), [MemberId(1)]);
    assert_eq!(repair.deadline(), None);
    repair.retain(|_| false);
    repair.postpone(MemberId(1), at(300));
    assert_eq!(repair.deadline(), None, "no link any more");
}
