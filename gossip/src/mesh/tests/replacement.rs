//! Which group holds the cluster state.

use super::*;
use crate::record::{BEFORE_MAX, ReplacementBody};

/// By which group the cluster state is held, as `by` signs it.
fn replacement(by: u32, generation: u32, group: u64, before: usize) -> Arc<Record> {
    let body = ReplacementBody {
        generation,
        group,
        home: MemberId(1),
        store: 7,
        before: vec![0; before],
    };
    signed(by, RecordKey::Replacement, generation.into(), &body)
}

#[test]
fn all_hear_which_group_holds_the_cluster_state_and_keep_to_the_newest() {
    let mut net = Net::new(9);
    net.run(1_500);
    net.input(3, MeshInput::Record(replacement(SIGNING, 2, 20, 1)));
    net.run(1_500);
    net.assert_equal();
    for number in 0..9 {
        assert!(net.events.contains(&(number, MeshEvent::Replacement)));
    }
    // Somebody who was away recovers it once more in the same generation: one of both holds.
    let other = replacement(SIGNING, 2, 22, 1);
    let first = net.nodes[&0]
        .record(RecordKey::Replacement)
        .unwrap()
        .clone();
    let winner = if other.hash > first.hash {
        &other
    } else {
        &first
    };
    net.input(5, MeshInput::Record(other.clone()));
    net.run(1_500);
    net.assert_equal();
    assert_eq!(net.nodes[&0].record(RecordKey::Replacement), Some(winner));

    let newest = replacement(SIGNING, 3, 30, 2);
    net.input(6, MeshInput::Record(newest.clone()));
    net.run(1_500);
    net.input(2, MeshInput::Record(other));
    net.run(1_500);
    net.assert_equal();
    assert_eq!(net.nodes[&8].record(RecordKey::Replacement), Some(&newest));
}

#[test]
fn nobody_but_the_cluster_says_which_group_that_is() {
    let mut net = Net::new(3);
    let by_member = replacement(2, 9, 90, 1);
    let too_long = replacement(SIGNING, 9, 90, BEFORE_MAX + 1);
    let other_number = {
        let mut body: ReplacementBody = replacement(SIGNING, 9, 90, 1).body().unwrap();
        body.generation = 8;
        signed(SIGNING, RecordKey::Replacement, 9, &body)
    };
    for record in [by_member, too_long, other_number] {
        net.input(0, MeshInput::Record(record));
    }
    assert_eq!(net.nodes[&0].record(RecordKey::Replacement), None);
    assert_eq!(net.nodes[&0].counters().records_forged, 1);
    assert_eq!(net.nodes[&0].counters().records_malformed, 2);
}
