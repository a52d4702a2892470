//! How a state that is too long for a frame comes to another copy.

use super::*;

/// A group of three whose state is six megabytes, and a fourth node without a copy.
fn large() -> (Bench, NodeId) {
    let mut bench = Bench::new(4);
    bench.bear(GROUP, 3);
    let leader = bench.elect(GROUP);
    for ticket in 1..=60 {
        let entry = "x".repeat(100_000);
        bench.propose(leader, ticket, &entry);
    }
    (bench, leader)
}

#[test]
fn a_state_that_a_link_has_no_room_for_at_once_arrives() {
    let (mut bench, leader) = large();
    bench.room = 1 << 20;
    bench.change(leader, 300, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
    bench.pass(500);
    assert_eq!(bench.journal(4).len(), 60);
}

#[test]
fn a_state_arrives_although_parts_of_it_are_lost() {
    let (mut bench, leader) = large();
    bench.loss = 30;
    bench.change(leader, 300, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
    bench.pass(15_000);
    assert_eq!(bench.journal(4).len(), 60);
}

#[test]
fn a_state_arrives_over_a_link_that_takes_longer_than_raft_waits() {
    let (mut bench, leader) = large();
    bench.budget = 0;
    bench.change(leader, 300, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
    for _ in 0..12 {
        bench.budget = 3;
        bench.pass(1_100);
    }
    assert_eq!(bench.journal(4).len(), 60);
}

#[test]
fn a_state_whose_receiver_was_started_anew_arrives_soon() {
    let (mut bench, leader) = large();
    bench.budget = 10;
    bench.change(leader, 300, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
    assert_eq!(bench.journal(4).len(), 0, "it is on its way");
    bench.hosts.insert(NodeId(4), host(bench.now, 4));
    bench.budget = usize::MAX;
    bench.pass(3_000);
    assert_eq!(bench.journal(4).len(), 60);
}

#[test]
fn a_state_travels_in_parts() {
    let mut bench = Bench::new(4);
    bench.bear(GROUP, 3);
    let leader = bench.elect(GROUP);
    for ticket in 1..=20 {
        let entry = "x".repeat(100_000);
        bench.propose(leader, ticket, &entry);
    }
    bench.longest = 0;
    bench.change(leader, 100, vec![ReplicaChange::Add(ReplicaId(4), home(4))]);
    bench.pass(500);
    assert_eq!(bench.journal(4), bench.journal(leader.0));
    let most = crate::wire::FRAME_BYTES + 100;
    assert!(
        (200_000..most).contains(&bench.longest),
        "{}",
        bench.longest
    );
}
