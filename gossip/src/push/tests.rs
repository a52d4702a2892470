use std::sync::Arc;

use super::outbox::OUTBOX_MAX;
use super::*;
use crate::key::{ClusterId, NodeKey, Sign, Signature};
use crate::record::Record;

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

const NOW: Time = Time(1_000_000);
const ME: MemberId = MemberId(0);

fn record(member: u32, number: u64, bytes: usize) -> Arc<Record> {
    let version = RecordVersion {
        incarnation: 1,
        number,
    };
    let key = RecordKey::Node(MemberId(member));
    let body = vec![0_u8; bytes];
    Arc::new(Record::sign(ClusterId::default(), key, version, &body, &Unsigned).unwrap())
}

fn linked(links: &[u32], records: &[Arc<Record>]) -> (PushQueues, NewestRecords) {
    let mut push = PushQueues::default();
    let mut store = NewestRecords::default();
    let links = links.iter().map(|member| MemberId(*member)).collect();
    push.links(NOW, ME, &links, &links);
    for record in records {
        store.put(record.clone());
        push.add(NOW, record.key, None);
    }
    (push, store)
}

fn sent(envelopes: &[PushBatch]) -> Vec<(u32, usize)> {
    envelopes
        .iter()
        .map(|envelope| (envelope.to.0, envelope.keys.len()))
        .collect()
}

#[test]
fn what_is_new_goes_to_all_links_but_its_sender() {
    let (mut push, mut store) = linked(&[1, 2, 3], &[]);
    let record = record(9, 1, 100);
    store.put(record.clone());
    push.add(NOW, record.key, Some(MemberId(2)));
    assert_eq!(sent(&push.flush(NOW, 30, &store)), [(1, 1), (3, 1)]);
    assert!(push.flush(NOW, 30, &store).is_empty());
}

#[test]
fn small_records_share_a_datagram_and_large_ones_take_a_stream() {
    let records: Vec<_> = (0..6)
        .map(|m| record(m, 1, 200))
        .chain([record(9, 1, 5_000)])
        .collect();
    let (mut push, store) = linked(&[1], &records);
    let envelopes = push.flush(NOW, 30, &store);
    assert_eq!(sent(&envelopes), [(1, 3), (1, 3), (1, 1)]);
    assert_eq!(envelopes[2].number, 0, "large: no ack");
}

#[test]
fn it_is_sent_again_until_acknowledged_and_not_for_ever() {
    let (mut push, store) = linked(&[1], &[record(9, 1, 100)]);
    let first = push.flush(NOW, 30, &store);
    let mut now = NOW;
    let mut again = 0;
    while let Some(at) = push.deadline() {
        assert!(at > now);
        now = at;
        again += push.flush(now, 30, &store).len();
    }
    assert_eq!(again, usize::try_from(TRIES_MAX).unwrap() - 1);

    let (mut push, store) = linked(&[1], &[record(9, 1, 100)]);
    push.flush(NOW, 30, &store);
    push.ack(MemberId(1), &[first[0].number]);
    assert!(push.is_quiet(MemberId(1)));
    assert!(push.flush(NOW.plus_millis(31), 30, &store).is_empty());
}

#[test]
fn who_has_it_is_not_sent_it() {
    let newest = record(9, 5, 100);
    for (number, expect) in [(4, 1), (5, 0), (6, 0)] {
        let (mut push, store) = linked(&[1], std::slice::from_ref(&newest));
        push.has(MemberId(1), &[record(9, number, 100)], &store);
        assert_eq!(push.flush(NOW, 30, &store).len(), expect, "{number}");
    }
}

#[test]
fn a_newer_version_replaces_what_waits() {
    let (mut push, mut store) = linked(&[1], &[record(9, 1, 100)]);
    let newer = record(9, 2, 100);
    store.put(newer.clone());
    push.add(NOW, newer.key, None);
    assert_eq!(sent(&push.flush(NOW, 30, &store)), [(1, 1)]);
}

#[test]
fn a_datagram_that_is_sent_again_does_not_grow() {
    let small: Vec<_> = (0..9).map(|member| record(member, 1, 10)).collect();
    let (mut push, mut store) = linked(&[1], &small);
    assert_eq!(sent(&push.flush(NOW, 30, &store)), [(1, 9)]);
    let larger = record(3, 2, 900);
    store.put(larger.clone());
    push.add(NOW, larger.key, None);
    let due = push.deadline().unwrap();
    let envelopes = push.flush(due, 30, &store);
    assert_eq!(sent(&envelopes), [(1, 8), (1, 1)]);
    assert_eq!(envelopes[1].keys, [larger.key]);
}

#[test]
fn what_goes_on_and_on_goes_in_fewer_datagrams() {
    let (mut push, mut store) = linked(&[1], &[]);
    let mut sends = 0;
    for ms in 0..1_000 {
        let now = NOW.plus_millis(ms);
        let record = record(u32::try_from(ms).unwrap(), 1, 10);
        store.put(record.clone());
        push.add(now, record.key, None);
        let envelopes = push.flush(now, 30, &store);
        sends += u64::from(!envelopes.is_empty());
        for envelope in envelopes {
            push.ack(MemberId(1), &[envelope.number]);
        }
    }
    let most = SENDS.burst + SENDS.per_s;
    assert!((60..=most).contains(&sends), "{sends}");
}

#[test]
fn a_busy_link_waits_a_little_so_that_records_share_a_datagram() {
    let (mut push, mut store) = linked(&[1], &[record(1, 1, 100)]);
    assert_eq!(push.flush(NOW, 30, &store).len(), 1);
    for member in 2..5 {
        let record = record(member, 1, 100);
        store.put(record.clone());
        push.add(NOW, record.key, None);
        assert!(push.flush(NOW, 30, &store).is_empty());
    }
    let later = push.deadline().unwrap();
    assert_eq!(later, NOW.plus_millis(PACE_MS));
    assert_eq!(sent(&push.flush(later, 30, &store)), [(1, 3)]);
}

#[test]
fn a_link_has_a_window_and_a_bound() {
    let records: Vec<_> = (0..5_000).map(|member| record(member, 1, 900)).collect();
    let (mut push, store) = linked(&[1], &records);
    assert_eq!(push.flush(NOW, 30, &store).len(), FLIGHTS_MAX);
    assert!(push.links[&MemberId(1)].outbox.len() <= OUTBOX_MAX);
}

#[test]
fn an_acknowledgement_frees_its_own_datagram_alone_and_makes_room_for_the_next() {
    let count = u32::try_from(FLIGHTS_MAX).unwrap() + 1;
    let records: Vec<_> = (0..count).map(|member| record(member, 1, 900)).collect();
    let (mut push, store) = linked(&[1], &records);
    let first = push.flush(NOW, 30, &store);
    let later = NOW.plus_millis(29);
    push.ack(MemberId(1), &[first[FLIGHTS_MAX - 1].number]);
    let next = push.flush(later, 30, &store);
    assert_eq!(sent(&next), [(1, 1)], "what waited for room");
    let again = push.flush(NOW.plus_millis(30), 30, &store);
    assert_eq!(again.len(), FLIGHTS_MAX - 1, "what is not acknowledged");
}

#[test]
fn where_nothing_arrives_one_datagram_at_a_time_is_tried() {
    let records: Vec<_> = (0..40).map(|member| record(member, 1, 900)).collect();
    let (mut push, store) = linked(&[1], &records);
    let first = push.flush(NOW, 30, &store);
    let mut now = NOW;
    let mut after = Vec::new();
    while after.is_empty() {
        now = push.deadline().unwrap();
        let again = push.flush(now, 30, &store).into_iter();
        after.extend(again.filter(|p| first.iter().all(|f| f.number != p.number)));
    }
    assert_eq!(after.len(), 1, "nothing of the first eight arrived");
    push.ack(MemberId(1), &[after[0].number]);
    let later = now.plus_millis(1_000);
    assert_eq!(
        push.flush(later, 30, &store).len(),
        FLIGHTS_MAX,
        "something did"
    );
}

#[test]
fn a_link_that_comes_back_is_told_what_it_just_missed() {
    let (mut push, store) = linked(&[1], &[record(9, 1, 100)]);
    push.flush(NOW, 30, &store);
    let both = [MemberId(1), MemberId(2)].into();
    push.links(NOW.plus_millis(10), ME, &both, &both);
    assert_eq!(sent(&push.flush(NOW.plus_millis(10), 30, &store)), [(2, 1)]);
    push.links(NOW, ME, &[MemberId(1)].into(), &both);
    push.links(NOW.plus_millis(RECENT_MS + 1), ME, &both, &both);
    let late = push.flush(NOW.plus_millis(RECENT_MS + 1), 30, &store);
    assert!(late.iter().all(|envelope| envelope.to != MemberId(2)));
}
