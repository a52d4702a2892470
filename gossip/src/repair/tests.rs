use std::sync::Arc;

use super::*;
use crate::key::{ClusterId, NodeKey, Sign, Signature};
use crate::record::{Record, Version};

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

fn store(versions: impl IntoIterator<Item = (u32, u64)>) -> Store {
    let mut store = Store::default();
    for (member, number) in versions {
        let version = Version {
            incarnation: 1,
            number,
        };
        let key = RecordKey::Node(MemberId(member));
        let record = Record::sign(ClusterId::default(), key, version, &member, &Unsigned);
        store.put(Arc::new(record.unwrap()));
    }
    store
}

fn digest(store: &Store) -> Digest {
    Digest {
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
    let version = Version {
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
    let summary = summary(&full, &digest(&Store::default())).unwrap();
    assert!(summary.versions.len() <= SUMMARY_MAX);
    assert!(!summary.buckets.is_empty());
    let found = compare(&full, &summary);
    assert_eq!(
        (found.give.len(), found.want.len()),
        (summary.versions.len(), 0)
    );
}

#[test]
fn only_a_difference_that_stays_is_looked_into() {
    let mut repair = Repair::default();
    let peer = MemberId(1);
    let at = |ms: u64| Time::from_millis(10_000 + ms);
    assert!(repair.compare(at(0), peer, 1, 2), "at the first meeting");
    assert!(!repair.compare(at(100), peer, 1, 2), "looked just now");
    assert!(repair.compare(at(600), peer, 1, 2), "stays");
    assert!(!repair.compare(at(1_700), peer, 3, 2), "changes");
    assert!(repair.compare(at(2_700), peer, 3, 2), "stays");
    assert!(!repair.compare(at(3_000), peer, 3, 3), "equal");
    assert!(!repair.compare(at(4_000), peer, 3, 4), "fresh");
    for (at_ms, theirs, expect) in [(5_000, 5, false), (6_000, 6, false), (7_100, 7, true)] {
        assert_eq!(
            repair.compare(at(at_ms), peer, 3, theirs),
            expect,
            "{at_ms}"
        );
    }
}
